// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

/** Asked before a malloc fails, on the thread of the malloc. It may call anything but the pool's close(). */
@FunctionalInterface
public interface OomHandler {
  /**
   * Frees something, if it can. What it throws is thrown by the malloc.
   *
   * @param size bytes that are wanted
   * @param attempt counts from 1
   * @return whether the malloc should be tried again
   */
  boolean freeSome(long size, int attempt);
}
