// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import org.gpupool.Backend;
import org.gpupool.Block;
import org.gpupool.Config;
import org.gpupool.GpuPool;
import org.gpupool.GpuPoolException.OutOfMemoryException;
import org.gpupool.Pool;
import org.gpupool.Stream;

/**
 * Allocate, use, free, and see what the pool did. Runs on a GPU or, without one, on the simulated device.
 */
public final class Basic {
  public static void main(String[] arguments) {
    System.out.println("on " + GpuPool.deviceInfo(Backend.AUTO, 0).getName());
    Config config = new Config();
    config.setLimitBytes(1L << 30);
    try (Pool pool = new Pool(config); Stream stream = pool.createStream()) {
      byte[] sent = "there and back".getBytes(StandardCharsets.UTF_8);
      try (Block here = pool.allocate(1 << 20, stream); Block there = pool.allocate(1 << 20, stream)) {
        here.write(sent);
        pool.copy(there.address(), here.address(), here.size(), stream);
        System.out.println(new String(there.read(0, sent.length), StandardCharsets.UTF_8));
      }
      try {
        pool.malloc(2L << 30);
      } catch (OutOfMemoryException full) {
        System.out.println("no room: " + full.getMessage());
      }
      System.out.println("live peak " + pool.stats().getAll().getAllocatedBytes().getPeak());
    }
  }
}
