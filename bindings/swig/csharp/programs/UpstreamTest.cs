// SPDX-License-Identifier: Apache-2.0
// Tests of pools whose memory comes from functions of C#'s.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using GpuPool;

public static class UpstreamTest {
  private const ulong MiB = 1 << 20;

  private static void Same<T>(T found, T expected) {
    if (!Equals(found, expected)) throw new Exception("expected " + expected + ", found " + found);
  }

  private static T Thrown<T>(Action call) where T : Exception {
    try {
      call();
    } catch (T failure) {
      return failure;
    }
    throw new Exception("expected " + typeof(T));
  }

  // Gives memory of another pool.
  private class Below : IUpstream {
    public readonly Pool Pool;
    public bool IsEmpty;
    public Exception Problem;

    public Below() {
      Pool = new Pool("sim");
    }
    public Below(Pool pool) {
      Pool = pool;
    }

    public ulong Malloc(ulong size, ulong stream) {
      if (Problem != null) throw Problem;
      return IsEmpty ? 0 : Pool.Malloc(size, stream);
    }

    public void Free(ulong address, ulong size, ulong stream) {
      Same(Pool.BlockInfo(address).RequestedBytes, size);
      Pool.Free(address, stream);
    }
  }

  private static ulong Live(Pool pool) {
    return pool.Stats().All.AllocatedBlocks.Current;
  }

  private static Config Simulated() {
    var config = new Config();
    config.SetDevice("sim");
    return config;
  }

  private static void TestMemory() {
    var below = new Below();
    var pool = new Pool(Simulated(), below);
    Block block = pool.Allocate(MiB);
    Same(Live(below.Pool) > 0, true);
    Same(below.Pool.BlockInfo(block.Address).State, BlockState.Live);
    block.Write(new byte[] { 1, 2, 3 }, 100);
    Same(string.Join(" ", block.Read(100, 3)), "1 2 3");
    Thrown<GpuPoolUnsupportedException>(() => pool.CreateChild());
    ulong address = pool.Malloc(MiB);
    pool.Dispose();
    // Live blocks keep what they are in.
    Same(string.Join(" ", block.Read(100, 3)), "1 2 3");
    block.Free();
    Same(Live(below.Pool) > 0, true);
    pool.Free(address);
    Same(Live(below.Pool), 0ul);
    using (var driver = new Pool(Simulated(), null)) driver.Allocate(MiB).Free();
  }

  private static void TestFailures() {
    var below = new Below();
    using (var pool = new Pool(Simulated(), below)) {
      below.IsEmpty = true;
      Thrown<GpuPoolOutOfMemoryException>(() => pool.Malloc(MiB));
      below.Problem = new InvalidOperationException("of the upstream");
      Same(Thrown<InvalidOperationException>(() => pool.Malloc(MiB)), below.Problem);
      Same(Thrown<InvalidOperationException>(() => pool.Allocate(MiB)), below.Problem);
      Same(Thrown<InvalidOperationException>(() => pool.Reserve(MiB)), below.Problem);
      below.Problem = null;
      below.IsEmpty = false;
      pool.Allocate(MiB).Free();
    }
    Same(Live(below.Pool), 0ul);
    Config wrong = Simulated();
    wrong.Device = 99;
    Thrown<GpuPoolException>(() => new Pool(wrong, below));
  }

  // Its memory goes back when the collector finds the block, and then nothing holds the upstream any more. Mono looks
  // for references on stacks without knowing what is one, so it may keep the last one that it has called.
  private static void TestCollector() {
    var memory = new Pool("sim");
    var upstreams = new List<WeakReference>();
    var thread = new Thread(() => {
      for (int i = 0; i < 10; ++i) {
        var below = new Below(memory);
        var pool = new Pool(Simulated(), below);
        pool.Allocate(MiB);
        pool.Dispose();
        upstreams.Add(new WeakReference(below));
      }
    });
    thread.Start();
    thread.Join();
    for (int tries = 0; tries < 500 && upstreams.Count(each => each.IsAlive) > 1; ++tries) {
      GC.Collect();
      GC.WaitForPendingFinalizers();
      Thread.Sleep(10);
    }
    Same(Live(memory), 0ul);
    Same(upstreams.Count(each => each.IsAlive) > 1, false);
  }

  public static void Main() {
    TestMemory();
    TestFailures();
    TestCollector();
    Same(Library.SimFaults(0), 0ul);
    Console.WriteLine("C#: upstreams passed");
  }
}
