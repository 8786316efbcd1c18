// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import org.gpupool.Block;
import org.gpupool.GpuPool;
import org.gpupool.GpuPoolException;
import org.gpupool.GpuPoolException.InvalidArgumentException;
import org.gpupool.GpuPoolException.UnknownPointerException;
import org.gpupool.Pool;
import org.gpupool.Stream;

/** Closes pools, blocks and streams while other threads are inside their calls. */
public final class RaceTest {
  private static final int DEVICE = 3;
  private static final long NANOSECONDS = 1_500_000_000L;

  /** Closes one thing while others use it until they are refused in these words. */
  private static void race(String refusal, Runnable close, Runnable... others) throws Exception {
    List<String> problems = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (Runnable other : others) {
      threads.add(new Thread(() -> {
        try {
          while (true) other.run();
        } catch (InvalidArgumentException | UnknownPointerException expected) {
          if (expected.getMessage().equals(refusal)) return;
          synchronized (problems) {
            problems.add(expected.toString());
          }
        } catch (GpuPoolException problem) {
          synchronized (problems) {
            problems.add(problem.toString());
          }
        }
      }));
    }
    for (Thread thread : threads) thread.start();
    Thread.sleep(0, 200_000);
    close.run();
    for (Thread thread : threads) thread.join();
    if (!problems.isEmpty()) throw new AssertionError(refusal + ": " + problems);
  }

  private interface Round {
    void run() throws Exception;
  }

  private static int again(Round round) throws Exception {
    int rounds = 0;
    for (long start = System.nanoTime(); System.nanoTime() - start < NANOSECONDS; ++rounds) round.run();
    return rounds;
  }

  private static void pools() throws Exception {
    Pool pool = new Pool("sim:" + DEVICE);
    Runnable pair = () -> pool.free(pool.malloc(512));
    Runnable others = () -> {
      pool.stats();
      pool.createStream().close();
      pool.allocate(4096).close();
    };
    race("the pool is closed", pool::close, pair, pair, others);
  }

  private static void blocks() throws Exception {
    try (Pool pool = new Pool("sim:" + DEVICE)) {
      Block block = pool.allocate(1 << 16, pool.createStream());
      byte[] bytes = new byte[1 << 16];
      race("the block has been freed", block::close,
          () -> block.write(bytes), () -> block.fill(1), block::read);
    }
  }

  private static void streams() throws Exception {
    try (Pool pool = new Pool("sim:" + DEVICE)) {
      Stream stream = pool.createStream();
      race("the stream is closed", stream::close, stream::synchronize,
          () -> pool.free(pool.malloc(512, stream), stream), () -> pool.allocate(512, stream).close());
    }
  }

  /** The content of a block stays usable while its pool is closed. */
  private static void contents() throws Exception {
    Pool pool = new Pool("sim:" + DEVICE);
    Stream stream = pool.createStream();
    Block block = pool.allocate(1 << 16, stream);
    Runnable use = () -> {
      block.fill(3);
      if (block.read(5, 1)[0] != 3) throw new AssertionError("another content");
      pool.stats();
    };
    race("the pool is closed", pool::close, use, use);
    block.fill(4);
    if (block.read(6, 1)[0] != 4) throw new AssertionError("another content");
    block.free();
  }

  public static void main(String[] arguments) throws Exception {
    int rounds = again(RaceTest::pools) + again(RaceTest::blocks) + again(RaceTest::streams)
        + again(RaceTest::contents);
    if (GpuPool.simFaults(DEVICE) != 0) throw new AssertionError(GpuPool.simLastFault(DEVICE));
    System.out.println("Java: " + rounds + " races passed");
  }
}
