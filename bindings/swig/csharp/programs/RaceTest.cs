// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using GpuPool;

/// <summary>Closes pools, blocks and streams while other threads are inside their calls.</summary>
public static class RaceTest {
  private const int Device = 3;
  private const string Name = "sim:3";
  private const int Milliseconds = 1200;

  /// <summary>Closes one thing while others use it until they are refused in these words.</summary>
  private static void Race(string refusal, Action close, params Action[] others) {
    var problems = new List<string>();
    List<Thread> threads = others.Select(other => new Thread(() => {
      try {
        while (true) other();
      } catch (GpuPoolException problem) {
        if (problem.Message == refusal) return;
        lock (problems) problems.Add(problem.ToString());
      }
    })).ToList();
    threads.ForEach(thread => thread.Start());
    Thread.SpinWait(20000);
    close();
    threads.ForEach(thread => thread.Join());
    if (problems.Count > 0) throw new Exception(refusal + ": " + string.Join("; ", problems));
  }

  private static int Again(Action round) {
    int rounds = 0;
    for (Stopwatch watch = Stopwatch.StartNew(); watch.ElapsedMilliseconds < Milliseconds; ++rounds) round();
    return rounds;
  }

  private static void Pools() {
    var pool = new Pool(Name);
    Action pair = () => pool.Free(pool.Malloc(512));
    Race("the pool is closed", pool.Dispose, pair, pair, () => {
      pool.Stats();
      pool.CreateStream().Dispose();
      pool.Allocate(4096).Dispose();
    });
  }

  private static void Blocks() {
    using (var pool = new Pool(Name)) {
      Block block = pool.Allocate(1 << 16, pool.CreateStream());
      var bytes = new byte[1 << 16];
      Race("the block has been freed", block.Dispose, () => block.Write(bytes), () => block.Fill(1),
           () => block.Read());
    }
  }

  private static void Streams() {
    using (var pool = new Pool(Name)) {
      Stream stream = pool.CreateStream();
      Race("the stream is closed", stream.Dispose, stream.Synchronize,
           () => pool.Free(pool.Malloc(512, stream), stream), () => pool.Allocate(512, stream).Dispose());
    }
  }

  /// <summary>The content of a block stays usable while its pool is closed.</summary>
  private static void Contents() {
    var pool = new Pool(Name);
    Block block = pool.Allocate(1 << 16, pool.CreateStream());
    Action use = () => {
      block.Fill(3);
      if (block.Read(5, 1)[0] != 3) throw new Exception("another content");
      pool.Stats();
    };
    Race("the pool is closed", pool.Dispose, use, use);
    block.Fill(4);
    if (block.Read(6, 1)[0] != 4) throw new Exception("another content");
    block.Free();
  }

  public static void Main() {
    int rounds = Again(Pools) + Again(Blocks) + Again(Streams) + Again(Contents);
    if (Library.SimFaults(Device) != 0) throw new Exception(Library.SimLastFault(Device));
    Console.WriteLine("C#: {0} races passed", rounds);
  }
}
