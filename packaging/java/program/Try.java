// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.gpupool.Block;
import org.gpupool.Pool;

/** Makes a round trip, and says where the native code came from. */
public final class Try {
  public static void main(String[] arguments) throws IOException {
    try (Pool pool = new Pool("sim", "64MiB"); Block block = pool.allocate(1 << 20)) {
      byte[] sent = "there and back".getBytes(StandardCharsets.UTF_8);
      block.write(sent);
      System.out.println(new String(block.read(0, sent.length), StandardCharsets.UTF_8));
      pool.validate();
    }
    String temporary = System.getProperty("java.io.tmpdir");
    try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
      long ours = maps.filter(line -> line.contains(temporary + "/gpupool") && line.endsWith("(deleted)")).count();
      if (ours == 0) throw new AssertionError("the native code is not from " + temporary);
    }
    System.out.println("from the jar");
  }
}
