// SPDX-License-Identifier: Apache-2.0
// Tests of everything that moves bytes: spans, slices, and copies that nobody waits for.
using System;
using GpuPool;

public static class BytesTest {
  private static void Same<T>(T found, T expected) {
    if (!Equals(found, expected)) throw new Exception("expected " + expected + ", found " + found);
  }

  private static string Refused<T>(Action call) where T : Exception {
    try {
      call();
    } catch (T failure) {
      return failure.Message;
    }
    throw new Exception("expected " + typeof(T));
  }

  private static string Text(byte[] bytes) {
    return string.Join(" ", bytes);
  }

  private static ulong Live(Pool pool) {
    return pool.Stats().All.AllocatedBlocks.Current;
  }

  private static void TestSpans() {
    using (var pool = new Pool())
    using (Block block = pool.Allocate(64)) {
      block.Fill(0);
      float[] sent = { 1.5f, -2, 3 };
      block.Write(new ReadOnlySpan<float>(sent, 1, 2), 8);
      var got = new float[4];
      block.Read(new Span<float>(got), 4);
      Same(string.Join(" ", got), "0 -2 3 0");
      using (Slice slice = block.GetSlice(8, 8)) {
        var one = new int[] { 7 };
        slice.Write(new ReadOnlySpan<int>(one), 4);
        var two = new int[2];
        slice.Read(new Span<int>(two));
        Same(two[1], 7);
        Refused<GpuPoolInvalidArgumentException>(() => slice.Read(new Span<int>(two), 1));
      }
      block.Write(new ReadOnlySpan<byte>(new byte[0]), 64);
      pool.Sleep();
      var saved = new float[3];
      pool.ReadBackup(block.Address + 4, new Span<float>(saved));
      pool.Wake();
      var awake = new float[3];
      block.Read(new Span<float>(awake), 4);
      Same(string.Join(" ", saved), string.Join(" ", awake));
      Refused<GpuPoolUnavailableException>(() => pool.ReadBackup(block.Address, new Span<float>(saved)));
    }
  }

  private static void TestSlices() {
    using (var pool = new Pool()) {
      Block block = pool.Allocate(100);
      block.Fill(1);
      Slice middle = block.GetSlice(10, 20);
      Same(middle.Address, block.Address + 10);
      Same(middle.Size, 20ul);
      middle.Fill(2);
      Slice inner = middle.GetSlice(5, 5);
      Same(inner.Offset, 15ul);
      inner.Write(new byte[] { 7, 8 });
      Same(Text(block.Read(13, 5)), "2 2 7 8 2");
      Same(Refused<GpuPoolInvalidArgumentException>(() => middle.GetSlice(15, 6)),
           "6 bytes at offset 15 are not inside a block of 20 bytes");
      Refused<ArgumentNullException>(() => middle.CopyFrom((Slice)null));
      // Slices keep a block that is freed.
      block.Free();
      Same(Live(pool), 1ul);
      Same(inner.Read(0, 1)[0], (byte)7);
      middle.Dispose();
      middle.Dispose();
      Same(middle.IsClosed, true);
      Same(Refused<GpuPoolInvalidArgumentException>(() => middle.Read()), "the slice is closed");
      inner.Dispose();
      Same(Live(pool), 0ul);
    }
  }

  private static void TestTransfers() {
    using (var pool = new Pool())
    using (Stream stream = pool.CreateStream()) {
      Block block = pool.Allocate(1000, stream);
      var bytes = new byte[] { 1, 2, 3 };
      Transfer sent = block.WriteAsync(bytes, 500);
      bytes[0] = 99;
      Transfer got = block.ReadAsync(500, 3);
      // Blocks stay until their copies are done.
      block.Free();
      Same(Live(pool), 1ul);
      Same(sent.IsDone, false);
      Same(Text(got.Read()), "1 2 3");
      Same(got.IsDone, true);
      sent.Finish();
      Same(Live(pool), 0ul);
      Same(Refused<GpuPoolInvalidArgumentException>(() => sent.Read()), "this transfer brings no bytes to the host");
      using (Block one = pool.Allocate(8, stream))
      using (Block other = pool.Allocate(8, stream)) {
        one.Fill(3);
        other.Fill(0);
        using (other.CopyFrom(one.GetSlice(0, 2), 4)) {
        }
        Same(Text(other.Read()), "0 0 0 0 3 3 0 0");
        Refused<GpuPoolInvalidArgumentException>(() => other.CopyFrom(one, 1));
      }
    }
  }

  public static void Main() {
    TestSpans();
    TestSlices();
    TestTransfers();
    Same(Library.SimFaults(0), 0ul);
    Console.WriteLine("C#: spans, slices and transfers passed");
  }
}
