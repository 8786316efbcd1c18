// SPDX-License-Identifier: Apache-2.0
package org.gpupool;

import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.stream.Stream;

/** Says where a malloc comes from, for samples and recordings. */
final class Frames {
  private static final StackWalker WALKER = StackWalker.getInstance();

  /**
   * Called by the native code in the middle of a malloc.
   *
   * @param room how many bytes there are
   * @return in UTF-8, a line for each frame, the innermost first; those of this package are not part of it
   */
  static byte[] tell(int room) {
    return WALKER.walk(frames -> write(frames, room)).getBytes(StandardCharsets.UTF_8);
  }

  private static String write(Stream<StackWalker.StackFrame> frames, int room) {
    StringBuilder text = new StringBuilder();
    Iterator<StackWalker.StackFrame> rest =
        frames.dropWhile(frame -> frame.getClassName().startsWith("org.gpupool.")).iterator();
    while (rest.hasNext()) {
      StackWalker.StackFrame frame = rest.next();
      int before = text.length();
      text.append(frame.getClassName()).append('.').append(frame.getMethodName());
      text.append(" (").append(frame.getFileName()).append(':').append(frame.getLineNumber()).append(")\n");
      if (text.length() > room) {
        text.setLength(before);
        break;
      }
    }
    return text.toString();
  }

  private Frames() {}
}
