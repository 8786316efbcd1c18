// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

/**
 * A part of a thread's work, by name: until close(), the mallocs of this thread carry the name in reports and
 * recordings, also where an exception ends the part. Tags nest; the innermost counts. A tag follows the
 * thread that began it, not what it hands to executors. A virtual thread must not block inside one: the tag
 * would stay with its carrier. Since 0.2.
 *
 * <pre>{@code
 * try (Tag tag = new Tag("kv cache")) {
 *   block = pool.allocate(size);
 * }
 * }</pre>
 */
public final class Tag implements AutoCloseable {
  private final Thread thread = Thread.currentThread();
  private boolean isOpen = true;

  /**
   * Begins it.
   *
   * @param name of 1 to 63 bytes
   */
  public Tag(String name) { GpuPool.tagPush(name); }

  /** Ends it, on the thread that began it: on another one, IllegalStateException. Twice does nothing. */
  @Override
  public void close() {
    if (Thread.currentThread() != thread) {
      throw new IllegalStateException("the tag was begun on " + thread + ", which must close it");
    }
    if (isOpen) GpuPool.tagPop();
    isOpen = false;
  }
}
