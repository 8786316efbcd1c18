// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

/**
 * Where the memory of a pool comes from, instead of the driver: new Pool(config, upstream). Called on any
 * thread, also on the cleaner's, and may not call the pool. Since 0.2.
 */
public interface Upstream {
  /**
   * Gives memory. The call of the pool that asked throws what it throws.
   *
   * @param size bytes that are wanted
   * @param stream the stream that uses them first
   * @return their address, a multiple of 512; 0: there is no more
   */
  long malloc(long size, long stream);

  /**
   * Takes back what malloc gave; no GPU work uses it any more. What it throws is printed.
   *
   * @param address what malloc returned
   * @param size as for malloc
   * @param stream as for malloc
   */
  void free(long address, long size, long stream);
}
