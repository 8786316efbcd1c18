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

  // Memory that nobody touches takes none of the host's.
  private static void TestBig() {
    const ulong GiB = 1ul << 30;
    const ulong size = 4 * GiB + 5;
    using (var pool = new Pool("sim"))
    using (Block block = pool.Allocate(size)) {
      Same(block.Size, size);
      Same(pool.BlockInfo(block.Address + size - 1).RequestedBytes, size);
      Same(pool.Stats().All.RequestedBytes.Current, size);
      block.Write(new byte[] { 1, 2, 3 }, size - 3);
      block.WriteAsync(new byte[] { 4, 5 }, size - 2).Dispose();
      Same(Text(block.Read(size - 3)), "1 4 5");
      Same(Text(block.ReadAsync(size - 3).Read()), "1 4 5");
      pool.Fill(block.Address + 4 * GiB, 7, 3);
      Same(Text(block.Read(4 * GiB)), "7 7 7 4 5");
      Slice tail = block.GetSlice(5, 4 * GiB);
      Same(tail.Size, 4 * GiB);
      Same(Text(tail.GetSlice(4 * GiB - 2, 2).Read()), "4 5");
      using (Block other = pool.Allocate(size)) {
        Same(Refused<GpuPoolInvalidArgumentException>(() => other.CopyFrom(block, 1)),
             "4294967301 bytes at offset 1 are not inside a block of 4294967301 bytes");
      }
      TooMuch(size, () => block.Read());
      TooMuch(4 * GiB, () => block.Read(5));
      TooMuch(4 * GiB + 1, () => block.Read(4, 4 * GiB + 1));
      TooMuch(3 * GiB, () => block.Read(0, 3 * GiB));
      TooMuch(4 * GiB, () => tail.Read());
      TooMuch(size, () => block.ReadAsync());
      TooMuch(4 * GiB, () => tail.ReadAsync(0, 4 * GiB));
      // The size comes first, asleep or not.
      TooMuch(size, () => pool.ReadBackup(block.Address));
      TooMuch(3 * GiB, () => pool.ReadBackup(block.Address + 9, 3 * GiB));
    }
  }

  private static void TooMuch(ulong bytes, Action read) {
    Same(Refused<GpuPoolInvalidArgumentException>(read),
         bytes + " bytes are more than a byte[] holds, 2147483591: read them in parts, by offset and length");
  }

  // A span counts its elements in 31 bits, so it can have more bytes than a span of bytes could.
  private static void TestBigSpans() {
    // Nothing is read: the block is too small. The message shows that the size was not cut to 32 bits.
    var doubles = new double[(1 << 29) + 1];
    using (var pool = new Pool("sim"))
    using (Block block = pool.Allocate(16)) {
      string words = "4294967304 bytes at offset 0 are not inside a block of 16 bytes";
      Same(Refused<GpuPoolInvalidArgumentException>(() => block.Write(new ReadOnlySpan<double>(doubles))), words);
      Same(Refused<GpuPoolInvalidArgumentException>(() => block.Read(new Span<double>(doubles))), words);
      Refused<GpuPoolException>(() => pool.ReadBackup(block.Address, new Span<double>(doubles)));
    }
  }

  public static void Main() {
    TestSpans();
    TestSlices();
    TestTransfers();
    TestBig();
    TestBigSpans();
    Same(Library.SimFaults(0), 0ul);
    Console.WriteLine("C#: spans, slices and transfers passed");
  }
}
