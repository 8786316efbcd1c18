// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading;

namespace GpuPool {

/// <summary>A part of the program's work, by name: until Dispose, its mallocs carry the name in reports and recordings,
/// also where an exception ends the part. Tags nest; the innermost counts. A tag follows the asynchronous context:
/// through awaits to whatever thread goes on, and into tasks that are begun inside. Since 0.2.
/// <code>using (new Tag("kv cache")) block = pool.Allocate(await Size());</code></summary>
public sealed class Tag : IDisposable {
  private static readonly AsyncLocal<Tag> Innermost = new AsyncLocal<Tag>(Switch);

  private readonly string name;
  private readonly Tag outer;

  /// <summary>Begins it.</summary>
  /// <param name="name">Of 1 to 63 bytes.</param>
  public Tag(string name) {
    // Refuses what could not be pushed later, when a thread takes up the context and nobody is there to be told.
    Library.TagPush(name);
    Library.TagPop();
    this.name = name;
    outer = Innermost.Value;
    Innermost.Value = this;
  }

  /// <summary>Ends it, and those begun inside it. Twice does nothing.</summary>
  public void Dispose() {
    for (Tag tag = Innermost.Value; tag != null; tag = tag.outer) {
      if (tag != this) continue;
      Innermost.Value = outer;
      return;
    }
  }

  // The library's tags are a thread's: it gets those of the context that it runs.
  private static void Switch(AsyncLocalValueChangedArgs<Tag> change) {
    try {
      for (Tag tag = change.PreviousValue; tag != null; tag = tag.outer) Library.TagPop();
      Push(change.CurrentValue);
    } catch (GpuPoolException) {
      // The program has popped what it did not push. The runtime, which calls this, would end it.
    }
  }

  private static void Push(Tag tag) {
    if (tag == null) return;
    Push(tag.outer);
    Library.TagPush(tag.name);
  }
}

}
