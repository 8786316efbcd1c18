// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.stream.Stream;

/** What may be done by whom with the native code while it lies in the folder for temporary files. */
public final class Permissions {
  public static void main(String[] arguments) throws Exception {
    Path folder = Natives.unpack(Natives.platform());
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : (Iterable<Path>) files::iterator)
        System.out.println(PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
    }
  }
}
