// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

/** Called before a malloc fails, on the malloc's thread. It may call anything but the pool's close(). */
@FunctionalInterface
public interface OomHandler {
  /**
   * Frees something, if it can. The malloc throws what it throws.
   *
   * @param size bytes that are wanted
   * @param attempt counts from 1
   * @return whether the malloc should be tried again
   */
  boolean freeSome(long size, int attempt);
}
