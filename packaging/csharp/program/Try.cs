// SPDX-License-Identifier: Apache-2.0
// A round trip through spans, and an error of the library.
using System;
using GpuPool;

public static class Try {
  public static int Main() {
    using (var pool = new Pool("sim", "64MiB"))
    using (Block block = pool.Allocate(1 << 20)) {
      block.Write(new ReadOnlySpan<double>(new[] { 1.5, 2.5 }), 8);
      var got = new double[2];
      block.Read(new Span<double>(got), 8);
      Console.WriteLine("there and back: " + (got[0] + got[1] == 4));
      try {
        pool.Allocate(1 << 30);
      } catch (GpuPoolOverLimitException full) {
        Console.WriteLine(full.Message.StartsWith("malloc of 1073741824 bytes"));
      }
      pool.Validate();
    }
    return 0;
  }
}
