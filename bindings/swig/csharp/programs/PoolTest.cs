// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using GpuPool;
using IO = System.IO;  // which has a Stream too

/// <summary>Tests of the C# binding on the simulated device.</summary>
public static class PoolTest {
  private const ulong MiB = 1 << 20;

  private static void Same<T>(T found, T expected) {
    if (!EqualityComparer<T>.Default.Equals(found, expected)) {
      throw new Exception("expected " + expected + ", found " + found);
    }
  }

  private static void IsTrue(bool condition) {
    Same(condition, true);
  }

  private static E Thrown<E>(Action code) where E : Exception {
    try {
      code();
    } catch (E problem) {
      return problem;
    }
    throw new Exception("expected " + typeof(E) + ", nothing was thrown");
  }

  private static Pool Limited(ulong bytes) {
    return new Pool(new Config { Backend = Backend.Sim, LimitBytes = bytes });
  }

  private static ulong Live(Pool pool) {
    return pool.Stats().All.AllocatedBytes.Current;
  }

  private static void TestLibrary() {
    IsTrue(Library.Version() >= 100 && Library.VersionString().StartsWith("0.", StringComparison.Ordinal));
    IsTrue((Library.Features() & (ulong)Feature.Sim) != 0);
    Same(Library.DeviceCount(Backend.Sim), 8);
    Same(Library.DeviceInfo(Backend.Sim, 1).TotalBytes, 150754820096UL);
    Same(Library.DeviceInfo(Backend.Sim, 1).Backend, Backend.Sim);
    Same(Library.StatusName(Status.OverLimit), "GPUPOOL_ERROR_OVER_LIMIT");
    Thrown<GpuPoolInvalidArgumentException>(() => Library.DeviceInfo(Backend.Sim, 8));
    if ((Library.Features() & (ulong)Feature.Cuda) == 0) {
      Thrown<GpuPoolUnavailableException>(() => Library.DeviceCount(Backend.Cuda));
    }
    Library.SetLog(LogLevel.Off);
  }

  private static void TestLogging() {
    var lines = new List<string>();
    Library.SetLog(LogLevel.Info, (level, message) => { lock (lines) lines.Add(level + " " + message); });
    GC.Collect();
    using (Pool pool = Limited(64 * MiB)) {
      IsTrue(lines[0].StartsWith("Info pool ", StringComparison.Ordinal));
      var elsewhere = new Thread(() => Thrown<GpuPoolOverLimitException>(() => pool.Malloc(65 * MiB)));
      elsewhere.Start();
      elsewhere.Join();
      IsTrue(lines[1].StartsWith("Warning GPUPOOL_ERROR_OVER_LIMIT: malloc", StringComparison.Ordinal));
    }
    Library.SetLog(LogLevel.Off);
    int count = lines.Count;
    new Pool().Dispose();
    Same(lines.Count, count);
  }

  private static void TestAddresses() {
    using (var pool = new Pool()) {
      ulong address = pool.Malloc(1000);
      Same(pool.BlockInfo(address + 999).Address, address);
      Same(pool.BlockInfo(address).RequestedBytes, 1000UL);
      Same(pool.BlockInfo(address).State, BlockState.Live);
      Same(Live(pool), 1024UL);
      pool.Free(address);
      Same(pool.Malloc(0), 0UL);
      pool.Free(0);
      ulong aligned = pool.MallocAligned(512, 2 * MiB);
      Same(aligned % (2 * MiB), 0UL);
      pool.Free(aligned, Library.StreamUnknown);
      Same(Live(pool), 0UL);
      GpuPoolException failure = Thrown<GpuPoolUnknownPointerException>(() => pool.Free(aligned));
      Same(failure.Status, Status.UnknownPointer);
      Same(failure.DriverCode, 0);
      IsTrue(Thrown<GpuPoolUnknownPointerException>(() => pool.Free(ulong.MaxValue - 511)).Message
                 .Contains((string)"0xfffffffffffffe00"));
      Thrown<GpuPoolOutOfMemoryException>(() => pool.Malloc(ulong.MaxValue));
      for (int shift = 46; shift < 64; ++shift) {
        ulong size = 1UL << shift;
        Thrown<GpuPoolOutOfMemoryException>(() => pool.Malloc(size));
        Thrown<GpuPoolOutOfMemoryException>(() => pool.Allocate(size));
      }
      Thrown<GpuPoolInvalidArgumentException>(() => pool.MallocAligned(1, 3));
    }
  }

  private static void TestBlocks() {
    using (var pool = new Pool()) {
      byte[] sent = { 1, 2, 3, 252 };
      using (Block block = pool.Allocate(1000)) {
        block.Fill(9);
        block.Write(sent, 100);
        IsTrue(block.Read(100, 4).SequenceEqual(sent));
        Same(block.Read().Length, 1000);
        Same(block.Read(999)[0], (byte)9);
        Same(block.Read(1000).Length, 0);
        Thrown<GpuPoolInvalidArgumentException>(() => block.Write(sent, 997));
        Thrown<GpuPoolInvalidArgumentException>(() => block.Read(0, 1001));
        Thrown<GpuPoolInvalidArgumentException>(() => block.Read(ulong.MaxValue, 2));
        Same(Thrown<ArgumentNullException>(() => block.Write(null)).ParamName, "data");
        Block copy = pool.Allocate(1000);
        pool.Copy(copy.Address, block.Address, 1000);
        pool.Fill(copy.Address, 7, 10);
        Same(copy.Read(9, 1)[0], (byte)7);
        Same(copy.Read(103, 1)[0], (byte)252);
        copy.Free();
        IsTrue(copy.IsFreed);
        Thrown<GpuPoolUnknownPointerException>(copy.Free);
        Same(Thrown<GpuPoolUnknownPointerException>(() => copy.Read()).Message, "the block has been freed");
        Thrown<GpuPoolUnknownPointerException>(() => Same(copy.Address, 0UL));
        Thrown<GpuPoolUnknownPointerException>(() => copy.Fill(1));
        Thrown<GpuPoolUnknownPointerException>(() => copy.RecordStream(0));
        copy.Dispose();
      }
      Same(Live(pool), 0UL);
      Block given = pool.Allocate(1);
      pool.Free(given.Release());
      Thrown<GpuPoolUnknownPointerException>(() => given.Release());
      given.Dispose();
      pool.Validate();
    }
  }

  private static void TestStreams() {
    using (var pool = new Pool()) {
      Stream stream = pool.CreateStream();
      Stream other = pool.CreateStream();
      Thrown<ArgumentNullException>(() => pool.Malloc(1, null));
      using (Block block = pool.Allocate(512, stream)) {
        pool.Fill(block.Address, 5, 512, stream);
        block.RecordStream(other);
        // A stream that is refused leaves the block as it was.
        Thrown<GpuPoolInvalidArgumentException>(() => block.Free(2));
        IsTrue(!block.IsFreed);
        block.Free(other);
      }
      other.Dispose();
      using (Block block = pool.Allocate(MiB, stream, 4096)) {
        Same(block.Stream, stream.Id);
        block.RecordStream(0);
        pool.RecordStream(block.Address, 0);
        block.Free(Library.StreamUnknown);
      }
      stream.Synchronize();
      pool.SynchronizeStream(stream);
      pool.Synchronize();
      pool.ParkStream(stream);
      pool.ReleaseStream(stream);
      stream.Dispose();
      stream.Dispose();
      IsTrue(stream.IsClosed);
      Same(Thrown<GpuPoolInvalidArgumentException>(() => pool.Malloc(1, stream)).Message, "the stream is closed");
      Stream closed = pool.CreateStream();
      Block left = pool.Allocate(512, closed);
      closed.Dispose();
      Thrown<GpuPoolInvalidArgumentException>(() => left.Read());
      Thrown<GpuPoolInvalidArgumentException>(() => left.Fill(1));
      left.Free();
      Thrown<GpuPoolInvalidArgumentException>(() => pool.ReleaseStream(Library.StreamUnknown));
    }
  }

  private static void TestLimits() {
    using (Pool pool = Limited(64 * MiB)) {
      GpuPoolOutOfMemoryException failure = Thrown<GpuPoolOverLimitException>(() => pool.Malloc(65 * MiB));
      IsTrue(failure.Message.Contains((string)"limit"));
      pool.Reserve(16 * MiB);
      IsTrue(pool.Stats().All.ReservedBytes.Current >= 16 * MiB);
      IsTrue(pool.Trim(2 * MiB) > 0);
      pool.Empty();
      Same(pool.Stats().All.ReservedBytes.Current, 0UL);
      pool.SetLimit(128 * MiB);
      Same(pool.Stats().LimitBytes, 128 * MiB);
      pool.SetFraction(0.5);
      Same(pool.Stats().LimitBytes, 150754820096UL / 2);
      Thrown<GpuPoolInvalidArgumentException>(() => pool.SetFraction(double.NaN));
      pool.ResetPeaks();
      Same(pool.Stats().All.ReservedBytes.Peak, 0UL);
    }
  }

  private static void TestHandlers() {
    using (Pool pool = Limited(64 * MiB)) {
      Block cache = pool.Allocate(60 * MiB);
      var attempts = new List<uint>();
      pool.SetOomHandler((size, attempt) => {
        Same(size, 32 * MiB);
        attempts.Add(attempt);
        cache.Dispose();
        return attempt < 2;
      });
      GC.Collect();
      pool.Allocate(32 * MiB).Free();
      IsTrue(attempts.SequenceEqual(new[] { 1U }));
      pool.SetOomHandler((size, attempt) => { throw new TimeoutException("from the handler"); });
      Same(Thrown<TimeoutException>(() => pool.Malloc(65 * MiB)).Message, "from the handler");
      pool.SetOomHandler(null);
      Thrown<GpuPoolOverLimitException>(() => pool.Malloc(65 * MiB));
    }
    // It may close even the pool that asks it. The pool then ends with the malloc.
    Pool closing = Limited(64 * MiB);
    closing.SetOomHandler((size, attempt) => {
      closing.Dispose();
      return false;
    });
    Thrown<GpuPoolOverLimitException>(() => closing.Malloc(65 * MiB));
    Thrown<GpuPoolInvalidArgumentException>(() => closing.Malloc(1));
  }

  private static Pool Sleepers() {
    return new Pool(new Config { Backend = Backend.Sim, MaxChunkBytes = 2 * MiB });
  }

  private static void TestSleeping() {
    using (Pool pool = Sleepers()) {
      var blocks = new[] { pool.Malloc(4 * MiB), pool.Malloc(4 * MiB), pool.Malloc(4 * MiB) };
      pool.SetName("some");
      SleepResult slept = pool.Sleep(SleepMode.Save, 0, 5 * MiB);
      Same(slept.ReleasedBytes, 8 * MiB);
      Same(slept.Pools, 0U);
      Same(pool.SleepState(), SleepState.Awake);
      Same(pool.BlockInfo(blocks[1]).State, BlockState.Asleep);
      Same(pool.BlockInfo(blocks[2]).State, BlockState.Live);
      Same(Library.SleepTag("some", SleepMode.Drop, 0, 1UL << 40).DroppedBytes, 4 * MiB);
      Same(pool.Wake().SavedBytes, 8 * MiB);
      foreach (ulong block in blocks) pool.Free(block);
    }
  }

  private static void TestBackups() {
    using (Pool pool = Sleepers()) {
      Block kept = pool.Allocate(4 * MiB);
      Block lost = pool.Allocate(4 * MiB);
      var bytes = new byte[4 * MiB];
      for (int i = 0; i < bytes.Length; ++i) bytes[i] = (byte)(i * 7);
      kept.Write(bytes);
      Thrown<GpuPoolUnavailableException>(() => pool.ReadBackup(kept.Address));
      pool.SetKeep(kept.Address, true);
      Thrown<GpuPoolUnknownPointerException>(() => pool.SetKeep(kept.Address + 512, true));
      pool.PrepareBackup(6 * MiB);
      IsTrue(pool.Stats().BackupBytes >= 6 * MiB);
      Thrown<GpuPoolHostOutOfMemoryException>(() => pool.PrepareBackup(ulong.MaxValue));
      SleepResult slept = pool.Sleep(SleepMode.Drop);
      Same(slept.SavedBytes, 4 * MiB);
      Same(slept.DroppedBytes, 4 * MiB);
      IsTrue(pool.ReadBackup(kept.Address).SequenceEqual(bytes));
      IsTrue(pool.ReadBackup(kept.Address + 100, 10).SequenceEqual(bytes.Skip(100).Take(10)));
      Same(pool.ReadBackup(kept.Address, 0).Length, 0);
      Thrown<GpuPoolInvalidArgumentException>(() => pool.ReadBackup(kept.Address + 1, 4 * MiB));
      Thrown<GpuPoolInvalidArgumentException>(() => pool.ReadBackup(kept.Address, ulong.MaxValue));
      Thrown<GpuPoolUnavailableException>(() => pool.ReadBackup(lost.Address));
      Thrown<GpuPoolUnknownPointerException>(() => pool.ReadBackup(4096));
      pool.Wake();
      IsTrue(kept.Read().SequenceEqual(bytes));
      Thrown<GpuPoolUnavailableException>(() => pool.ReadBackup(kept.Address));
      pool.SetKeep(kept.Address, false);
      Same(pool.Sleep(SleepMode.Drop).SavedBytes, 0UL);
      pool.Wake();
      pool.PrepareBackup(0);
      Same(pool.Stats().BackupBytes, 0UL);
      kept.Free();
      lost.Free();
    }
    Pool closed = Sleepers();
    closed.Dispose();
    Thrown<GpuPoolInvalidArgumentException>(() => closed.PrepareBackup(1));
    Thrown<GpuPoolInvalidArgumentException>(() => closed.ReadBackup(4096));
  }

  private static void TestSleepTags() {
    using (Pool one = Sleepers(), two = Sleepers()) {
      one.SetName("pair");
      two.SetName("pair");
      Same(Library.SleepTag("pair").Pools, 2U);
      Same(Library.WakeTag("pair", 1000).Pools, 2U);
      Same(Library.WakeTag("pair").Pools, 0U);
      Same(Library.WakeTag("nobody's").Pools, 0U);
      Thrown<GpuPoolInvalidArgumentException>(() => Library.WakeTag("pair", 0, 1U << 30));
      Same(one.SleepState(), SleepState.Awake);
    }
  }

  // A pool that another one needs the memory of, on a device that has room for one of them.
  private static void TestAllowedSleep() {
    Library.SimConfigure(4, new SimConfig { CapacityBytes = 64 * MiB });
    using (Pool idle = new Pool("sim:4"), busy = new Pool("sim:4")) {
      Block block = idle.Allocate(40 * MiB);
      block.Write(new byte[] { 1, 2, 3 });
      Thrown<GpuPoolOutOfMemoryException>(() => busy.Malloc(40 * MiB));
      Thrown<GpuPoolInvalidArgumentException>(() => idle.AllowSleep(SleepMode.Save, 1U << 30));
      Thrown<GpuPoolOutOfMemoryException>(() => busy.Malloc(40 * MiB));
      idle.AllowSleep();
      idle.SetSleepHooks(address => throw new InvalidOperationException("from the hook"), null);
      Same(Thrown<InvalidOperationException>(() => busy.Malloc(40 * MiB)).Message, "from the hook");
      Same(idle.SleepState(), SleepState.Awake);
      idle.SetSleepHooks(null, null);
      ulong taken = busy.Malloc(40 * MiB);
      Same(idle.SleepState(), SleepState.Asleep);
      busy.Free(taken);
      idle.Wake();
      IsTrue(block.Read(0, 3).SequenceEqual(new byte[] { 1, 2, 3 }));
      Same(busy.Stats().All.AllocatedBytes.Current, 0UL);
      block.Free();
    }
  }

  private static void TestSleepHooks() {
    var calls = new List<string>();
    using (Pool pool = Sleepers()) {
      ulong block = pool.Malloc(4 * MiB);
      pool.SetSleepHooks(address => {
        Thrown<GpuPoolUnavailableException>(() => pool.Wake());
        pool.Allocate(MiB).Dispose();
        calls.Add("before " + (address == block));
        return true;
      }, address => {
        calls.Add("after " + (address == block));
        return true;
      });
      GC.Collect();
      pool.Sleep();
      pool.Wake();
      pool.SleepBlock(block);
      pool.WakeBlock(block);
      IsTrue(calls.SequenceEqual(new[] { "before False", "after False", "before True", "after True" }));
      pool.SetSleepHooks(address => false, null);
      Thrown<GpuPoolUnavailableException>(() => pool.Sleep());
      Same(pool.Sleep(SleepMode.Save, 0, 8 * MiB).SavedBytes, 0UL);
      Same(pool.SleepState(), SleepState.Awake);
      // What a hook throws is the call's, even if the call succeeds without the block.
      pool.SetSleepHooks(address => { throw new TimeoutException("from the hook"); }, null);
      Same(Thrown<TimeoutException>(() => pool.Sleep()).Message, "from the hook");
      Thrown<TimeoutException>(() => pool.Sleep(SleepMode.Save, 0, 8 * MiB));
      Same(pool.SleepState(), SleepState.Awake);
      pool.SetSleepHooks(null, address => { throw new TimeoutException("from the hook"); });
      pool.Sleep();
      Thrown<TimeoutException>(() => pool.Wake());
      pool.SetSleepHooks(null, null);
      pool.Wake();
      pool.Sleep();
      pool.Wake();
      Same(calls.Count, 4);
      pool.Free(block);
    }
    Pool closing = Sleepers();
    closing.SetSleepHooks(address => {
      closing.Dispose();
      return true;
    }, address => true);
    closing.Sleep();
    Thrown<GpuPoolInvalidArgumentException>(() => closing.SetSleepHooks(null, null));
  }

  private static void TestWatching() {
    using (var pool = new Pool())
    using (Block block = pool.Allocate(3 * MiB)) {
      Snapshot snapshot = pool.Snapshot();
      BlockInfo[] live = snapshot.Blocks.Where(b => b.State == BlockState.Live).ToArray();
      Same(live.Length, 1);
      Same(live[0].Address, block.Address);
      IsTrue(snapshot.Segments[0].SizeBytes > 0);
      IsTrue(pool.Report().Contains((string)"1 live block"));
      Same(pool.Stats().Large.AllocatedBlocks.Current, 1UL);
      IsTrue(pool.Stats().Driver.Create.Count > 0);
    }
  }

  private static void TestClosing() {
    var pool = new Pool("sim:6");
    Stream stream = pool.CreateStream();
    Block block = pool.Allocate(MiB);
    Block onStream = pool.Allocate(MiB, stream);
    onStream.Fill(7);
    ulong address = pool.Malloc(MiB);
    pool.Dispose();
    pool.Dispose();
    IsTrue(pool.IsClosed);
    Action[] calls = { () => pool.Malloc(1), () => pool.Stats(), () => pool.Allocate(1), () => pool.CreateStream(),
                       () => pool.Empty(), () => pool.Report(), () => pool.Snapshot(), pool.Validate, pool.Synchronize,
                       () => pool.SetLimit(0), () => pool.EnablePeer(0),
                       () => pool.SetOomHandler((size, attempt) => false) };
    foreach (Action call in calls) {
      Same(Thrown<GpuPoolInvalidArgumentException>(call).Message, "the pool is closed");
    }
    // Its streams are closed with it.
    IsTrue(stream.IsClosed);
    Same(Thrown<GpuPoolInvalidArgumentException>(stream.Synchronize).Message, "the stream is closed");
    stream.Dispose();
    // Its blocks are as they were.
    block.Write(new byte[] { 1, 2 });
    Same(block.Read(1, 1)[0], (byte)2);
    Same(onStream.Read(0, 1)[0], (byte)7);
    onStream.Fill(8);
    Same(onStream.Read(9, 1)[0], (byte)8);
    block.Free();
    onStream.Dispose();
    // The pool is there until the last address is freed.
    Thrown<GpuPoolInvalidArgumentException>(() => Library.SimConfigure(6, new SimConfig()));
    Thrown<GpuPoolUnknownPointerException>(() => pool.Free(address + 1));
    pool.Free(address);
    Same(Thrown<GpuPoolInvalidArgumentException>(() => pool.Free(address)).Message, "the pool is closed");
    Library.SimConfigure(6, new SimConfig());
    Same(Library.SimFaults(6), 0UL);
  }

  private static void TestWords() {
    Same(Library.ParseSize("1.5 KiB"), 1536UL);
    Thrown<GpuPoolInvalidArgumentException>(() => Library.ParseSize("a lot"));
    Same(Library.ParseDevice("sim:3").Backend, Backend.Sim);
    Same(Library.ParseDevice("sim:3").Device, 3);
    Thrown<GpuPoolInvalidArgumentException>(() => new Pool("gpu"));
    Thrown<GpuPoolInvalidArgumentException>(() => new Pool("sim", "lots"));
    var pool = new Pool("sim:1", "64MiB");
    Stream stream = pool.CreateStream();
    Block block = pool.Allocate(1000, stream);
    Same(pool.ToString(), "pool on sim:1: 2 MiB of 64 MiB reserved, 1 block live");
    Same(pool.Stats().ToString(), "2 MiB of 64 MiB reserved, 1 block live");
    Same(block.ToString(),
         string.Format("block of 1000 bytes at 0x{0:x} on stream 0x{1:x}", block.Address, stream.Id));
    block.Free();
    Same(block.ToString(), "block of 1000 bytes: freed");
    Same(stream.ToString(), string.Format("stream 0x{0:x}", stream.Id));
    stream.Dispose();
    Same(stream.ToString(), "stream: closed");
    pool.SetLimit("50%");
    Same(pool.Stats().LimitBytes, 150754820096UL / 2);
    pool.SetLimit("1GiB");
    Same(pool.Stats().LimitBytes, 1024 * MiB);
    pool.Dispose();
    Same(pool.ToString(), "pool: closed");
    var config = new Config();
    config.SetDevice("sim:2");
    config.SetLimit("25%");
    using (var quarter = new Pool(config)) Same(quarter.Stats().LimitBytes, 150754820096UL / 4);
  }

  private static void TestLaunches() {
    Library.SimConfigure(7, new SimConfig { Streams = 2 });
    var config = new Config { Backend = Backend.Sim, Device = 7 };
    config.SetCaptureAware(true);
    using (var pool = new Pool(config))
    using (Stream stream = pool.CreateStream())
    using (Stream other = pool.CreateStream())
    using (Block block = pool.Allocate(4, stream)) {
      block.Write(new byte[] { 1, 1, 1, 1 });
      Library.SimCapture(7, stream, true);
      ulong capture = pool.CaptureId(stream);
      Library.SimWork(7, stream, block.Address, 4, 1000000);
      block.Fill(9);
      Thrown<GpuPoolInvalidArgumentException>(() => Library.SimLaunch(7, capture, other));
      Library.SimCapture(7, stream, false);
      IsTrue(block.Read().SequenceEqual(new byte[] { 1, 1, 1, 1 }));
      Library.SimLaunch(7, capture, other);
      other.Synchronize();
      IsTrue(block.Read().SequenceEqual(new byte[] { 9, 9, 9, 9 }));
      Thrown<GpuPoolInvalidArgumentException>(() => Library.SimLaunch(7, capture + 1, other));
      Same(Library.SimFaults(7), 0UL);
      Thrown<GpuPoolDriverException>(() => Library.SimLaunch(7, capture, 12345));
    }
  }

  private static void TestCaptures() {
    var config = new Config { Backend = Backend.Sim, Device = 4 };
    config.SetCaptureAware(true);
    using (var pool = new Pool(config))
    using (Stream stream = pool.CreateStream()) {
      Library.SimCapture(4, stream, true);
      ulong capture = pool.CaptureId(stream);
      IsTrue(capture != 0);
      pool.Free(pool.Malloc(MiB, stream), stream);
      Thrown<GpuPoolInvalidArgumentException>(() => pool.ReleaseCapture(capture));
      Library.SimCapture(4, stream, false);
      pool.ReleaseCapture(capture);
      Thrown<GpuPoolInvalidArgumentException>(() => pool.ReleaseCapture(0));
      pool.AnnounceCapture(true);
      pool.AnnounceCapture(false);
      Thrown<GpuPoolInvalidArgumentException>(() => pool.AnnounceCapture(false));
      pool.EnablePeer(5);
      Thrown<GpuPoolInvalidArgumentException>(() => pool.EnablePeer(99));
      using (Pool child = pool.CreateChild()) {
        Thrown<GpuPoolInvalidArgumentException>(() => child.SetLimit(64 * MiB));
      }
    }
  }

  [MethodImpl(MethodImplOptions.NoInlining)]
  private static void DropBlocks(Pool pool) {
    for (int i = 0; i < 100; ++i) pool.Allocate(1000, pool.CreateStream());
  }

  [MethodImpl(MethodImplOptions.NoInlining)]
  private static Block BlockOfDroppedPool() {
    var pool = new Pool();
    return pool.Allocate(100, pool.CreateStream());
  }

  private static void TestTags() {
    using (Pool pool = Limited(1024 * MiB)) {
      Library.TagPush("weights");
      Library.TagPush("kv cache");
      ulong address = pool.Malloc(512 * MiB);
      Library.TagPop();
      Block block = pool.Allocate(256 * MiB);
      Library.TagPop();
      Thrown<GpuPoolInvalidArgumentException>(Library.TagPop);
      Same(pool.Holders().Count(), 2U);
      Same(pool.Holders().Holder(0).Tag, "kv cache");
      Same(pool.Holders().Holder(1).Tag, "weights");
      block.Free();
      pool.Free(address);
      Same(pool.Holders().Count(), 0U);
      Thrown<GpuPoolInvalidArgumentException>(() => Library.TagPush(""));
    }
  }

  private static void TestRecording() {
    string file = IO.Path.Combine(IO.Path.GetTempPath(), IO.Path.GetRandomFileName());
    Library.RecordStart(file, 0);
    Thrown<GpuPoolInvalidArgumentException>(() => Library.RecordStart(file + "2", 0));
    Library.Mark("step 12");
    Library.RecordStop();
    Thrown<GpuPoolInvalidArgumentException>(Library.RecordStop);
    Library.Mark("nobody listens");
    IsTrue(IO.File.ReadAllText(file, Encoding.ASCII).Contains("step 12"));
    Thrown<GpuPoolInvalidArgumentException>(() => Library.RecordStart(file, 0));
    IO.File.Delete(file);
  }

  private static void TestCollecting() {
    using (var pool = new Pool()) {
      // The collector looks at stacks without knowing types, so a few may stay.
      DropBlocks(pool);
      for (int i = 0; i < 500 && Live(pool) > 10 * 1024; ++i) {
        GC.Collect();
        GC.WaitForPendingFinalizers();
      }
      IsTrue(Live(pool) <= 10 * 1024);
    }
    // A pool and a stream are dropped before their block.
    Block block = BlockOfDroppedPool();
    for (int i = 0; i < 3; ++i) {
      GC.Collect();
      GC.WaitForPendingFinalizers();
    }
    block.Write(new byte[] { 1 });
    block.Free();
  }

  [MethodImpl(MethodImplOptions.NoInlining)]
  private static void ForgetBlocks(Pool pool, int count) {
    for (int i = 0; i < count; ++i) pool.Allocate(MiB);
  }

  [MethodImpl(MethodImplOptions.NoInlining)]
  private static void ForgetChild(Pool pool) {
    Pool child = pool.CreateChild();
    child.Free(child.Malloc(48 * MiB));
  }

  private static void TestCollectingBeforeOutOfMemory() {
    using (Pool pool = Limited(64 * MiB)) {
      // The collector runs only when a malloc would fail, and often enough for ten times what fits.
      ForgetBlocks(pool, 64);
      Same(pool.Stats().FailedMallocs, 0UL);
      ForgetBlocks(pool, 9 * 64);
      pool.Free(pool.Malloc(48 * MiB));
      pool.Free(pool.MallocAligned(48 * MiB, 2 * MiB));

      // What is reachable stays. The collector finds nothing, so the failure is the first one.
      using (Block kept = pool.Allocate(32 * MiB)) {
        Thrown<GpuPoolOverLimitException>(() => pool.Malloc(33 * MiB));  // the last of what the loops left
        ulong failed = pool.Stats().FailedMallocs;
        var attempts = new List<uint>();
        pool.SetOomHandler((size, attempt) => {
          attempts.Add(attempt);
          return attempt < 2;
        });
        var failure = Thrown<GpuPoolOverLimitException>(() => pool.Allocate(33 * MiB));
        IsTrue(failure.Message.StartsWith("malloc of 34603008 bytes", StringComparison.Ordinal));
        IsTrue(attempts.SequenceEqual(new[] { 1U, 2U }));
        Same(pool.Stats().FailedMallocs, failed + 1);
        IsTrue(!kept.IsFreed);
      }

      // What a handler throws is thrown at once.
      pool.SetOomHandler((size, attempt) => { throw new TimeoutException("from the handler"); });
      int before = GC.CollectionCount(GC.MaxGeneration);
      Thrown<TimeoutException>(() => pool.Malloc(65 * MiB));
      Same(GC.CollectionCount(GC.MaxGeneration), before);
    }
  }

  // A child keeps what it has mapped, even while that is free. The collector looks at stacks without knowing types, so
  // the last ones may stay.
  private static void TestCollectingChildrenBeforeOutOfMemory() {
    using (Pool pool = Limited(512 * MiB)) {
      for (int i = 0; i < 50; ++i) ForgetChild(pool);
      pool.Free(pool.Malloc(48 * MiB));
    }
  }

  private static void TestThreads() {
    using (var pool = new Pool()) {
      Block elsewhere = pool.Allocate(5);
      var threads = new List<Thread> { new Thread(elsewhere.Free) };
      for (int t = 0; t < 4; ++t) {
        threads.Add(new Thread(() => {
          for (ulong i = 0; i < 1000; ++i) pool.Allocate(1000 + i).Dispose();
        }));
      }
      threads.ForEach(thread => thread.Start());
      threads.ForEach(thread => thread.Join());
      Same(Live(pool), 0UL);
      pool.Validate();
    }
  }

  private static void TestSharedPool() {
    Pool first = Pool.Shared();
    Pool second = Pool.Shared(0);
    ulong address = first.Malloc(512);
    first.Dispose();
    Thrown<GpuPoolInvalidArgumentException>(() => first.Malloc(1));
    second.Free(address);
    Thrown<GpuPoolInvalidArgumentException>(() => Pool.Shared(99));
  }

  private static void TestConfigs() {
    var config = new Config { Backend = Backend.Sim, Device = 2 };
    config.SetCaptureAware(true);
    config.AddPeer(3);
    config.AddPeer(4);
    using (var pool = new Pool(config)) Same(pool.Stats().Device, 2);
    config.AddPeer(99);
    Thrown<GpuPoolInvalidArgumentException>(() => new Pool(config));
    Thrown<GpuPoolInvalidArgumentException>(() => new Pool(new Config { Fraction = 2 }));
    Same(Thrown<ArgumentNullException>(() => new Pool((Config)null)).ParamName, "config");
    Same(Thrown<ArgumentNullException>(() => new Pool((string)null)).ParamName, "device");
  }

  private static void TestHandoffs() {
    using (var pool = new Pool())
    using (var other = new Pool()) {
      ulong address = pool.Malloc(3 * MiB);
      string handle = pool.ExportBlock(address);
      var block = other.ImportBlock(handle);
      Same(block.AllocatedBytes, 3 * MiB);
      pool.Free(address);
      Same(pool.Stats().All.ActiveBytes.Current, 3 * MiB);
      other.CloseImport(block.Address);
      Same(pool.Stats().All.ActiveBytes.Current, 0UL);
      Thrown<GpuPoolUnknownPointerException>(() => other.CloseImport(block.Address));
      Thrown<GpuPoolUnavailableException>(() => other.ImportBlock(handle));
      Thrown<GpuPoolInvalidArgumentException>(() => other.ImportBlock("gpupool"));
    }
  }

  private static void TestSimulatedDevice() {
    const int device = 5;
    var sim = new SimConfig { CapacityBytes = 64 * MiB };
    Library.SimConfigure(device, sim);
    using (var pool = new Pool(new Config { Backend = Backend.Sim, Device = device })) {
      Thrown<GpuPoolInvalidArgumentException>(() => Library.SimConfigure(device, sim));
      Thrown<GpuPoolOutOfMemoryException>(() => pool.Malloc(65 * MiB));
      pool.Empty();
      Library.SimScript(device, "create:*=error");
      Thrown<GpuPoolDriverException>(() => pool.Malloc(MiB));
      Library.SimScript(device, "");
      Thrown<GpuPoolInvalidArgumentException>(() => Library.SimScript(device, "nonsense"));
      Stream stream = pool.CreateStream();
      Library.SimCapture(device, stream, true);
      Library.SimCapture(device, stream, false);
      Same(Library.SimFaults(device), 0UL);
      Library.SimAdvance(device, 1000);
      Thrown<GpuPoolDriverException>(() => Library.SimWork(device, stream, 512, 512, 1000));
      Same(Library.SimFaults(device), 1UL);
      IsTrue(Library.SimLastFault(device) != "");
    }
  }

  public static void Main() {
    Action[] tests = { TestLibrary, TestLogging, TestAddresses, TestBlocks, TestStreams, TestLimits, TestHandlers,
                       TestSleeping, TestBackups, TestSleepTags, TestAllowedSleep, TestSleepHooks,
                       TestWatching, TestTags, TestRecording, TestClosing, TestWords, TestCaptures,
                       TestLaunches, TestCollecting, TestCollectingBeforeOutOfMemory,
                       TestCollectingChildrenBeforeOutOfMemory, TestThreads, TestSharedPool, TestConfigs, TestHandoffs,
                       TestSimulatedDevice };
    foreach (Action test in tests) test();
    Console.WriteLine("C#: {0} tests passed", tests.Length);
  }
}
