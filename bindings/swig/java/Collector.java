// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Runs Java's collector before a malloc fails: it does not see how much GPU memory a small object holds. */
final class Collector {
  private static final long LONGEST_WAIT_MS = 500;

  /**
   * Called by the native code. Returns when the cleaner, which runs on a thread of its own, has begun on what
   * was found; the native code sees when it has stopped.
   */
  static void collect() {
    CountDownLatch begun = new CountDownLatch(1);
    forget(begun);
    System.gc();
    try {
      begun.await(LONGEST_WAIT_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException interruption) {
      Thread.currentThread().interrupt();
    }
  }

  /** Gives the collector something to find. */
  private static void forget(CountDownLatch begun) {
    GpuPoolJNI.CLEANER.register(new Object(), begun::countDown);
  }

  private Collector() {}
}
