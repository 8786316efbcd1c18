// SPDX-License-Identifier: Apache-2.0

import java.util.Arrays;
import java.util.Locale;
import org.gpupool.Backend;
import org.gpupool.Config;
import org.gpupool.GpuPool;
import org.gpupool.Pool;
import org.gpupool.SimConfig;
import org.gpupool.Stream;

/** Nanoseconds of a malloc and a free that the pool serves from what it holds; beside `gpupool bench`. */
public final class PairBench {
  private static final int ROUNDS = 15;
  private static final int PAIRS = 200_000;

  public static void main(String[] arguments) {
    SimConfig sim = new SimConfig();
    sim.setData(2); // addresses only
    GpuPool.simConfigure(0, sim);
    Config config = new Config();
    config.setBackend(Backend.SIM);
    try (Pool pool = new Pool(config); Stream stream = pool.createStream()) {
      System.out.printf(Locale.ROOT, "{\"language\":\"java\",\"pair_ns_4k\":%.1f,\"pair_ns_1m\":%.1f}%n",
          measure(pool, 4 << 10, stream.id()), measure(pool, 1 << 20, stream.id()));
    }
  }

  /** The median of several rounds; the first ones warm up the compiler. */
  private static double measure(Pool pool, long size, long stream) {
    double[] times = new double[ROUNDS];
    for (int round = -3; round < ROUNDS; ++round) {
      long start = System.nanoTime();
      for (int i = 0; i < PAIRS; ++i) pool.free(pool.malloc(size, stream), stream);
      if (round >= 0) times[round] = (System.nanoTime() - start) / (double) PAIRS;
    }
    Arrays.sort(times);
    return times[ROUNDS / 2];
  }
}
