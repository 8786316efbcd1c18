// SPDX-License-Identifier: Apache-2.0

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.gpupool.*;
import org.gpupool.GpuPoolException.InvalidArgumentException;
import org.gpupool.GpuPoolException.UnknownPointerException;

/** Tests of everything that moves bytes: Java buffers, slices, and copies that nobody waits for. */
public final class BytesTest {
  private static void same(Object found, Object expected) {
    if (!found.equals(expected)) throw new AssertionError("expected " + expected + ", found " + found);
  }

  private static String refused(Class<? extends Exception> type, Runnable call) {
    try {
      call.run();
    } catch (RuntimeException failure) {
      if (type.isInstance(failure)) return failure.getMessage();
      throw failure;
    }
    throw new AssertionError("expected " + type);
  }

  private static void buffers(boolean direct) {
    try (Pool pool = new Pool(); Block block = pool.allocate(64)) {
      block.fill(0);
      ByteBuffer sent = direct ? ByteBuffer.allocateDirect(16) : ByteBuffer.allocate(16);
      sent.order(ByteOrder.nativeOrder()).putFloat(1.5f).putInt(7).putFloat(-2).putInt(9).flip().position(4);
      block.write(sent, 8);
      same(sent.remaining(), 0);
      ByteBuffer got = direct ? ByteBuffer.allocateDirect(12) : ByteBuffer.allocate(12);
      block.read(got, 8);
      same(got.remaining(), 0);
      got.flip().order(ByteOrder.nativeOrder());
      same(got.getInt(), 7);
      same(got.getFloat(), -2f);
      same(block.read(0, 8).length, 8);
      same(block.read(20, 1)[0], (byte) 0);
      got.clear();
      refused(InvalidArgumentException.class, () -> block.read(got, 60));
      same(got.position(), 0);
      refused(java.nio.ReadOnlyBufferException.class, () -> block.read(got.asReadOnlyBuffer()));
    }
  }

  private static void slices() {
    try (Pool pool = new Pool()) {
      Block block = pool.allocate(100);
      block.fill(1);
      Slice middle = block.slice(10, 20);
      same(middle.address(), block.address() + 10);
      same(middle.size(), 20L);
      middle.fill(2);
      Slice inner = middle.slice(5, 5);
      same(inner.offset(), 15L);
      inner.write(new byte[] {7, 8});
      same(Arrays.toString(block.read(13, 5)), "[2, 2, 7, 8, 2]");
      same(Arrays.toString(inner.read()), "[7, 8, 2, 2, 2]");
      same(block.read(30, 1)[0], (byte) 1);
      same(refused(InvalidArgumentException.class, () -> middle.slice(15, 6)),
          "6 bytes at offset 15 are not inside a block of 20 bytes");
      refused(InvalidArgumentException.class, () -> inner.write(new byte[6]));
      refused(NullPointerException.class, () -> middle.copyFrom((Slice) null));
      // Slices keep a block that is freed.
      block.free();
      same(pool.stats().getAll().getAllocatedBlocks().getCurrent(), 1L);
      same(inner.read(0, 1)[0], (byte) 7);
      refused(UnknownPointerException.class, () -> block.slice(0, 1));
      middle.close();
      middle.close();
      same(refused(InvalidArgumentException.class, middle::read), "the slice is closed");
      same(middle.toString(), "slice of 20 bytes: closed");
      inner.close();
      same(pool.stats().getAll().getAllocatedBlocks().getCurrent(), 0L);
    }
  }

  private static void transfers() {
    Pool pool = new Pool();
    try (Stream stream = pool.createStream()) {
      Block block = pool.allocate(1000, stream);
      byte[] bytes = {1, 2, 3};
      Transfer sent = block.writeAsync(bytes, 500);
      bytes[0] = 99;
      Transfer got = block.readAsync(500, 3);
      // Blocks stay until their copies are done.
      block.free();
      same(pool.stats().getAll().getAllocatedBlocks().getCurrent(), 1L);
      same(sent.isDone(), false);
      same(Arrays.toString(got.read()), "[1, 2, 3]");
      same(Arrays.toString(got.read()), "[1, 2, 3]");
      same(got.isDone(), true);
      sent.close();
      same(pool.stats().getAll().getAllocatedBlocks().getCurrent(), 0L);
      same(refused(InvalidArgumentException.class, sent::read), "this transfer brings no bytes to the host");
      try (Block one = pool.allocate(8, stream); Block other = pool.allocate(8, stream)) {
        one.fill(3);
        other.fill(0);
        other.copyFrom(one.slice(0, 2), 4).close();
        same(Arrays.toString(other.read()), "[0, 0, 0, 0, 3, 3, 0, 0]");
        refused(InvalidArgumentException.class, () -> other.copyFrom(one, 1));
        same(one.readAsync(0, 0).read().length, 0);
      }
      // From a pool of pinned memory to one of device memory; both are closed meanwhile.
      Config pinned = new Config();
      pinned.setKind(Kind.PINNED);
      Block device = pool.allocate(4, stream);
      Transfer crossing;
      try (Pool host = new Pool(pinned); Block source = host.allocate(4)) {
        source.write(new byte[] {4, 5, 6, 7});
        crossing = device.copyFrom(source);
      }
      pool.close();
      crossing.close();
      same(Arrays.toString(device.read()), "[4, 5, 6, 7]");
      device.free();
    }
  }

  /** Memory that nobody touches takes none of the host's. */
  private static void big() {
    final long gib = 1L << 30;
    final long size = 4 * gib + 5;
    try (Pool pool = new Pool("sim"); Block block = pool.allocate(size)) {
      same(block.size(), size);
      same(pool.blockInfo(block.address() + size - 1).getRequestedBytes(), size);
      same(pool.stats().getAll().getRequestedBytes().getCurrent(), size);
      block.write(new byte[] {1, 2, 3}, size - 3);
      block.writeAsync(new byte[] {4, 5}, size - 2).close();
      same(Arrays.toString(block.read(size - 3)), "[1, 4, 5]");
      same(Arrays.toString(block.readAsync(size - 3).read()), "[1, 4, 5]");
      pool.fill(block.address() + 4 * gib, 7, 3);
      ByteBuffer got = ByteBuffer.allocateDirect(5);
      block.read(got, 4 * gib);
      same(got.get(2) + " " + got.get(3), "7 4");
      Slice tail = block.slice(5, 4 * gib);
      same(tail.size(), 4 * gib);
      same(Arrays.toString(tail.slice(4 * gib - 2, 2).read()), "[4, 5]");
      try (Block other = pool.allocate(size)) {
        same(refused(InvalidArgumentException.class, () -> other.copyFrom(block, 1)),
            "4294967301 bytes at offset 1 are not inside a block of 4294967301 bytes");
      }
      tooMuch(size, () -> block.read());
      tooMuch(4 * gib, () -> block.read(5));
      tooMuch(4 * gib + 1, () -> block.read(4, 4 * gib + 1));
      tooMuch(3 * gib, () -> block.read(0, 3 * gib));
      tooMuch(4 * gib, () -> tail.read());
      tooMuch(size, () -> block.readAsync());
      tooMuch(4 * gib, () -> block.readAsync(5));
      tooMuch(4 * gib, () -> tail.readAsync(0, 4 * gib));
      // The size comes first, asleep or not.
      tooMuch(size, () -> pool.readBackup(block.address()));
      tooMuch(3 * gib, () -> pool.readBackup(block.address() + 9, 3 * gib));
    }
  }

  private static void tooMuch(long bytes, Runnable read) {
    same(refused(InvalidArgumentException.class, read),
        bytes + " bytes are more than a byte[] holds, 2147483639: read them in parts, by offset and length");
  }

  public static void main(String[] arguments) {
    buffers(true);
    buffers(false);
    slices();
    transfers();
    big();
    same(GpuPool.simFaults(0), 0L);
    System.out.println("Java: buffers, slices and transfers passed");
  }
}
