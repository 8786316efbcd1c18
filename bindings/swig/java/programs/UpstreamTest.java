// SPDX-License-Identifier: Apache-2.0

import java.lang.ref.WeakReference;
import java.util.Arrays;
import org.gpupool.*;
import org.gpupool.GpuPoolException.OutOfMemoryException;
import org.gpupool.GpuPoolException.UnsupportedException;

/** Tests of pools whose memory comes from functions of Java's. */
public final class UpstreamTest {
  private static final long MIB = 1 << 20;

  private static void same(Object found, Object expected) {
    if (!found.equals(expected)) throw new AssertionError("expected " + expected + ", found " + found);
  }

  private static <T extends Throwable> T thrown(Class<T> type, Runnable call) {
    try {
      call.run();
    } catch (Throwable failure) {
      if (type.isInstance(failure)) return type.cast(failure);
      throw failure;
    }
    throw new AssertionError("expected " + type);
  }

  /** Gives memory of another pool. */
  private static final class Below implements Upstream {
    final Pool pool = new Pool("sim");
    boolean isEmpty;
    RuntimeException problem;

    @Override
    public synchronized long malloc(long size, long stream) {
      if (problem != null) throw problem;
      return isEmpty ? 0 : pool.malloc(size, stream);
    }

    @Override
    public synchronized void free(long address, long size, long stream) {
      same(pool.blockInfo(address).getRequestedBytes(), size);
      pool.free(address, stream);
    }

    long live() { return pool.stats().getAll().getAllocatedBlocks().getCurrent(); }
  }

  private static Config config() {
    Config config = new Config();
    config.setDevice("sim");
    return config;
  }

  private static void memory() {
    Below below = new Below();
    Pool pool = new Pool(config(), below);
    Block block = pool.allocate(MIB);
    same(below.live() > 0, true);
    same(below.pool.blockInfo(block.address()).getState(), BlockState.LIVE);
    block.write(new byte[] {1, 2, 3}, 100);
    same(Arrays.toString(block.read(100, 3)), "[1, 2, 3]");
    thrown(UnsupportedException.class, pool::createChild);
    long address = pool.malloc(MIB);
    pool.close();
    // Live blocks keep what they are in.
    same(Arrays.toString(block.read(100, 3)), "[1, 2, 3]");
    block.free();
    same(below.live() > 0, true);
    pool.free(address);
    same(below.live(), 0L);
    try (Pool driver = new Pool(config(), null)) {
      driver.allocate(MIB).free();
    }
  }

  private static void failures() {
    Below below = new Below();
    try (Pool pool = new Pool(config(), below)) {
      below.isEmpty = true;
      thrown(OutOfMemoryException.class, () -> pool.malloc(MIB));
      below.problem = new IllegalStateException("of the upstream");
      same(thrown(IllegalStateException.class, () -> pool.malloc(MIB)), below.problem);
      same(thrown(IllegalStateException.class, () -> pool.allocate(MIB)), below.problem);
      same(thrown(IllegalStateException.class, () -> pool.reserve(MIB)), below.problem);
      below.problem = null;
      below.isEmpty = false;
      pool.allocate(MIB).free();
    }
    same(below.live(), 0L);
    Config wrong = config();
    wrong.setDevice(99);
    thrown(GpuPoolException.class, () -> new Pool(wrong, below));
  }

  /**
   * Its memory goes back when the collector finds the block, and then nothing holds the upstream any more.
   */
  private static WeakReference<Upstream> forget(Below below) {
    Upstream upstream = new Upstream() {
      @Override
      public long malloc(long size, long stream) {
        return below.malloc(size, stream);
      }
      @Override
      public void free(long address, long size, long stream) {
        below.free(address, size, stream);
      }
    };
    Pool pool = new Pool(config(), upstream);
    pool.allocate(MIB);
    pool.close();
    return new WeakReference<>(upstream);
  }

  private static void collector() throws InterruptedException {
    Below below = new Below();
    WeakReference<Upstream> upstream = forget(below);
    for (int tries = 0; tries < 500 && upstream.get() != null; ++tries) {
      System.gc();
      Thread.sleep(10);
    }
    same(below.live(), 0L);
    same(upstream.get() == null, true);
  }

  public static void main(String[] arguments) throws InterruptedException {
    memory();
    failures();
    collector();
    same(GpuPool.simFaults(0), 0L);
    System.out.println("Java: upstreams passed");
  }
}
