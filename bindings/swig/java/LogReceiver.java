// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

/** Receives the lines of the log, on whatever thread they come from. It must not call gpupool. */
@FunctionalInterface
public interface LogReceiver {
  /**
   * Takes one line. What it throws is printed.
   *
   * @param level how important it is
   * @param message without an end of line
   */
  void line(LogLevel level, String message);

  /** For the native code. */
  default void take(int level, String message) { line(LogLevel.swigToEnum(level), message); }
}
