// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * Finds the native code: in the folder that the property org.gpupool.natives names, else in the jar, else in
 * java.library.path.
 */
final class Natives {
  private static final String NAME = System.mapLibraryName("gpupool_java");

  static void load() {
    String chosen = System.getProperty("org.gpupool.natives");
    if (chosen != null) {
      System.load(Path.of(chosen, NAME).toAbsolutePath().toString());
      return;
    }
    String platform = platform();
    if (Natives.class.getResource(resource(platform, NAME)) == null) {
      loadFromPath(platform);
      return;
    }
    try {
      Path folder = unpack(platform);
      try {
        System.load(folder.resolve(NAME).toString());
      } catch (UnsatisfiedLinkError failure) {
        throw new UnsatisfiedLinkError("gpupool: its native code cannot be loaded from "
            + System.getProperty("java.io.tmpdir") + " (" + failure.getMessage()
            + "); where that is mounted noexec, -Djava.io.tmpdir=FOLDER names another folder for it, or "
            + "-Dorg.gpupool.natives=FOLDER one that has it");
      } finally {
        // Loaded files stay loaded when they are removed; Windows leaves them where they are.
        remove(folder);
      }
    } catch (IOException failure) {
      throw new UnsatisfiedLinkError("gpupool: its native code cannot be written to "
          + System.getProperty("java.io.tmpdir") + " (" + failure
          + "); -Djava.io.tmpdir=FOLDER names another folder");
    }
  }

  /**
   * Writes the native code of the jar into a new folder that only this user can open, so that nobody can
   * exchange the files.
   */
  static Path unpack(String platform) throws IOException {
    // Windows gives each user a folder for temporary files that nobody else can open.
    FileAttribute<?>[] ownersOnly = {};
    if (java.nio.file.FileSystems.getDefault().supportedFileAttributeViews().contains("posix")) {
      ownersOnly = new FileAttribute<?>[] {
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))};
    }
    Path folder = Files.createTempDirectory("gpupool", ownersOnly);
    try {
      for (String name : names(platform)) {
        Path file = Files.createFile(folder.resolve(name), ownersOnly);
        try (InputStream stream = Natives.class.getResourceAsStream(resource(platform, name))) {
          if (stream == null) throw new IOException("the jar has no " + name);
          Files.write(file, stream.readAllBytes());
        }
      }
    } catch (IOException failure) {
      remove(folder);
      throw failure;
    }
    return folder;
  }

  /** For example linux-x86_64, macos-aarch64 or windows-x86_64. */
  static String platform() { return platform(System.getProperty("os.name"), System.getProperty("os.arch")); }

  static String platform(String system, String machine) {
    String name = system.toLowerCase(java.util.Locale.ROOT);
    if (name.startsWith("windows")) name = "windows";
    if (name.startsWith("mac")) name = "macos";
    return name + "-" + (machine.equals("amd64") ? "x86_64" : machine);
  }

  private static void loadFromPath(String platform) {
    try {
      System.loadLibrary("gpupool_java");
    } catch (UnsatisfiedLinkError failure) {
      throw new UnsatisfiedLinkError("gpupool: this jar has no native code for " + platform
          + ", and java.library.path does not help: " + failure.getMessage());
    }
  }

  /** The files of a platform, which the build lists beside them: our library, and what it needs. */
  private static List<String> names(String platform) throws IOException {
    Properties list = new Properties();
    try (InputStream stream = Natives.class.getResourceAsStream(resource(platform, "files.properties"))) {
      if (stream == null) throw new IOException("the jar has no list of its native code");
      list.load(stream);
    }
    return new ArrayList<>(list.stringPropertyNames());
  }

  private static String resource(String platform, String name) {
    return "/org/gpupool/native/" + platform + "/" + name;
  }

  private static void remove(Path folder) {
    try {
      try (java.util.stream.Stream<Path> files = Files.list(folder)) {
        for (Path file : (Iterable<Path>) files::iterator) Files.delete(file);
      }
      Files.delete(folder);
    } catch (IOException failure) {
      // It is in the folder for temporary files, which the system empties.
    }
  }

  private Natives() {}
}
