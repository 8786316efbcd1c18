// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

/**
 * Called before memory goes, or once it is there again, on the thread of the sleep or the wake; on a thread
 * of the library if another process asks. It may use any pool; only calls that sleep, wake or prepare the
 * same pool are refused. Since 0.2.
 */
@FunctionalInterface
public interface SleepHook {
  /**
   * Ends what must end, or begins it again. What it throws counts as false, and the sleep or the wake throws
   * it.
   *
   * @param address the block that sleeps or wakes alone; 0: all of the pool
   * @return whether the memory may go, or whether all is well again
   */
  boolean call(long address);
}
