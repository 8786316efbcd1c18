// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.function.ToLongFunction;
import java.util.zip.GZIPInputStream;
import org.gpupool.*;

/**
 * Replays a recorded workload twice: Replay TRACE.gz. Prints a short form of what `gpupool replay --json`
 * prints.
 */
public final class Replay {
  private final List<long[]> events = new ArrayList<>(); // {bytes, or -1 for a free; slot; stream}
  private final List<long[]> leftovers = new ArrayList<>(); // as events
  private final Map<String, Integer> streamNumbers = new HashMap<>(); // in the order of their appearance
  private int slots;

  /** Lines are "a ID BYTES STREAM", "f ID" and "# words". */
  private Replay(Path file) throws IOException {
    Map<String, long[]> live = new HashMap<>();
    Deque<Integer> freeSlots = new ArrayDeque<>();
    try (var lines =
             new BufferedReader(new InputStreamReader(new GZIPInputStream(Files.newInputStream(file))))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] fields = line.split(" ");
        if (fields[0].equals("a")) {
          int stream = streamNumbers.computeIfAbsent(fields[3], name -> streamNumbers.size());
          int slot = freeSlots.isEmpty() ? slots++ : freeSlots.pop();
          live.put(fields[1], new long[] {-1, slot, stream});
          events.add(new long[] {Long.parseUnsignedLong(fields[2]), slot, stream});
        } else if (fields[0].equals("f")) {
          long[] event = live.remove(fields[1]);
          freeSlots.push((int) event[1]);
          events.add(event);
        }
      }
    }
    leftovers.addAll(live.values());
    leftovers.sort(Comparator.comparingLong(event -> event[1]));
  }

  private static void play(Pool pool, List<long[]> events, long[] streams, long[] addresses) {
    for (long[] event : events) {
      int slot = (int) event[1];
      long stream = streams[(int) event[2]];
      if (event[0] >= 0) {
        addresses[slot] = pool.malloc(event[0], stream);
      } else {
        pool.free(addresses[slot], stream);
      }
    }
  }

  private static long driverCalls(Stats stats) {
    DriverStats d = stats.getDriver();
    CallStat[] calls = {d.getCreate(), d.getRelease(), d.getMap(), d.getSetAccess(), d.getUnmap(),
        d.getAddress(), d.getMalloc(), d.getFree(), d.getEventRecord(), d.getQuery(), d.getStreamWait(),
        d.getHostWait()};
    return Arrays.stream(calls).mapToLong(CallStat::getCount).sum();
  }

  /** What each pass added. */
  private static String each(List<Stats> marks, ToLongFunction<Stats> figure) {
    long[] values = marks.stream().mapToLong(figure).toArray();
    return List.of(values[1] - values[0], values[2] - values[1]).toString().replace(" ", "");
  }

  public static void main(String[] arguments) throws IOException {
    Path file = Path.of(arguments[0]);
    Replay trace = new Replay(file);
    DeviceInfo device = GpuPool.deviceInfo(Backend.AUTO, 0);
    boolean isSim = device.getBackend() == Backend.SIM;
    if (isSim) {
      SimConfig sim = new SimConfig();
      sim.setData(2); // addresses only, for speed
      GpuPool.simConfigure(device.getDevice(), sim);
    }
    try (Pool pool = new Pool()) {
      List<Stream> owned = new ArrayList<>();
      while (owned.size() < trace.streamNumbers.size()) owned.add(pool.createStream());
      long[] streams = owned.stream().mapToLong(Stream::id).toArray();
      long[] addresses = new long[trace.slots];
      List<Stats> marks = new ArrayList<>(List.of(pool.stats()));
      List<String> times = new ArrayList<>();
      for (int pass = 0; pass < 2; ++pass) {
        long start = System.nanoTime();
        play(pool, trace.events, streams, addresses);
        times.add(
            String.format(Locale.ROOT, "%.1f", (System.nanoTime() - start) / (double) trace.events.size()));
        play(pool, trace.leftovers, streams, addresses);
        marks.add(pool.stats());
      }
      owned.forEach(Stream::close);
      System.out.printf("{\"language\":\"java\",\"device\":\"%s:%d\",\"trace\":\"%s\",\"events\":%d,"
              + "\"ns_per_event\":[%s],\"peak_live_bytes\":%d,\"peak_reserved_bytes\":%d,"
              + "\"driver_calls\":%s,\"hits\":%s,\"misses\":%s,\"steals\":%s}%n",
          isSim ? "sim" : "cuda", device.getDevice(),
          file.getFileName().toString().replaceAll("(\\.trace)?\\.gz$", ""), trace.events.size(),
          String.join(",", times), marks.get(2).getAll().getAllocatedBytes().getPeak(),
          marks.get(2).getAll().getReservedBytes().getPeak(), each(marks, Replay::driverCalls),
          each(marks, Stats::getHits), each(marks, Stats::getMisses), each(marks, Stats::getSteals));
    }
  }
}
