// SPDX-License-Identifier: Apache-2.0

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.gpupool.Backend;
import org.gpupool.Config;
import org.gpupool.DeviceInfo;
import org.gpupool.GpuPool;
import org.gpupool.GpuPoolException;
import org.gpupool.Kind;
import org.gpupool.Mode;
import org.gpupool.Pool;
import org.gpupool.SimConfig;
import org.gpupool.Status;
import org.gpupool.Stream;

/** Runs tests/scenario files: RunScenarios FILE... Every language's runner prints the same. */
public final class RunScenarios {
  private static final int SIM_DEVICE = 7;
  private static final int ADDRESSES_ONLY = 2;

  /** A step that did not come out as expected. */
  private static final class Unexpected extends Exception {
    private static final long serialVersionUID = 1;

    Unexpected(String what, Object expected, Object found) {
      super(what + ": expected " + expected + ", found " + found);
    }
  }

  /** What malloc gave, and the stream it was for. */
  private static final class Allocation {
    final long address;
    final long stream;

    Allocation(long address, long stream) {
      this.address = address;
      this.stream = stream;
    }
  }

  private final Map<String, Pool> pools = new TreeMap<>();
  private final Map<String, Stream> streams = new HashMap<>();
  private final Map<String, Allocation> blocks = new HashMap<>();
  private final Map<String, Long> saved = new HashMap<>();
  private final boolean isSim;

  private RunScenarios(JsonObject scenario) {
    isSim = scenario.has("sim");
    if (isSim) {
      JsonObject sim = scenario.getAsJsonObject("sim");
      SimConfig config = new SimConfig();
      config.setData(ADDRESSES_ONLY);
      if (sim.has("capacity_bytes")) config.setCapacityBytes(sim.get("capacity_bytes").getAsLong());
      GpuPool.simConfigure(SIM_DEVICE, config);
    }
  }

  public static void main(String[] files) throws Exception {
    boolean allGood = true;
    for (String file : files) {
      JsonObject scenario = JsonParser.parseString(Files.readString(Path.of(file))).getAsJsonObject();
      RunScenarios runner = new RunScenarios(scenario);
      int number = 0;
      JsonObject step = null;
      try {
        for (JsonElement element : scenario.getAsJsonArray("steps")) {
          number++;
          step = element.getAsJsonObject();
          runner.run(step);
        }
        System.out.println(runner.result(scenario.get("name").getAsString()));
      } catch (Unexpected problem) {
        System.err.printf("%s: step %d: %s: %s%n", file, number, step, problem.getMessage());
        allGood = false;
      }
      runner.close();
    }
    System.exit(allGood ? 0 : 1);
  }

  private void run(JsonObject step) throws Unexpected {
    JsonObject expect = step.has("expect") ? step.getAsJsonObject("expect") : new JsonObject();
    String wanted = expect.has("status") ? expect.get("status").getAsString() : "GPUPOOL_SUCCESS";
    List<Integer> numbers = new ArrayList<>(List.of(0));
    if (step.has("for")) {
      List<JsonElement> range = step.getAsJsonArray("for").asList();
      numbers.clear();
      for (int i = range.get(0).getAsInt(); i < range.get(1).getAsInt(); i += range.get(2).getAsInt())
        numbers.add(i);
    }
    String message = "";
    String block = null;
    for (int i : numbers) {
      block = step.has("block") ? step.get("block").getAsString().replace("#", Integer.toString(i)) : null;
      Status status = Status.SUCCESS;
      try {
        perform(step, block);
      } catch (GpuPoolException failure) {
        status = failure.getStatus();
        message = failure.getMessage();
      }
      if (!GpuPool.statusName(status).equals(wanted)) {
        throw new Unexpected("status", wanted, GpuPool.statusName(status) + " " + message);
      }
    }
    check(step, expect, block, message);
    if (step.has("save")) {
      for (var entry : step.getAsJsonObject("save").entrySet()) {
        saved.put(entry.getKey(), statistic(pool(step), entry.getValue().getAsString()));
      }
    }
  }

  // clang-format off: it knows no arrows.
  private void perform(JsonObject step, String block) {
    switch (step.get("op").getAsString()) {
      case "create" -> pools.put(step.get("pool").getAsString(), create(step));
      case "destroy" -> pools.remove(step.get("pool").getAsString()).close();
      case "stream" -> streams.put(step.get("stream").getAsString(), pool(step).createStream());
      case "destroy_stream" -> streams.remove(step.get("stream").getAsString()).close();
      case "malloc" -> malloc(step, block);
      case "free" -> free(step, block);
      case "record_stream" -> pool(step).recordStream(blocks.get(block).address, stream(step, 0));
      case "release_stream" -> pool(step).releaseStream(stream(step, 0));
      case "synchronize" -> pool(step).synchronize();
      case "empty" -> pool(step).empty();
      case "reset_peaks" -> pool(step).resetPeaks();
      case "validate" -> pool(step).validate();
      case "trim" -> pool(step).trim(size(step.get("target_bytes")));
      case "reserve" -> pool(step).reserve(size(step.get("target_bytes")), stream(step, 0));
      case "set_fraction" -> pool(step).setFraction(step.get("fraction").getAsDouble());
      case "set_limit" -> pool(step).setLimit(size(step.get("limit_bytes")));
      case "look" -> { }
      default -> throw new IllegalArgumentException("unknown op in " + step);
    }
  }

  // clang-format on
  private Pool create(JsonObject step) {
    Config config = new Config();
    if (isSim) {
      config.setBackend(Backend.SIM);
      config.setDevice(SIM_DEVICE);
    }
    if (step.has("fraction")) config.setFraction(step.get("fraction").getAsDouble());
    if (step.has("limit_bytes")) config.setLimitBytes(step.get("limit_bytes").getAsLong());
    if (step.has("slack")) config.setSlack(step.get("slack").getAsDouble());
    if (step.has("max_chunk_bytes")) config.setMaxChunkBytes(step.get("max_chunk_bytes").getAsLong());
    if (step.has("mode")) config.setMode(Mode.valueOf(step.get("mode").getAsString().toUpperCase()));
    if (step.has("kind")) config.setKind(Kind.valueOf(step.get("kind").getAsString().toUpperCase()));
    return new Pool(config);
  }

  private void malloc(JsonObject step, String block) {
    long bytes = size(step.get("size"));
    long stream = stream(step, 0);
    long address = step.has("alignment")
        ? pool(step).mallocAligned(bytes, step.get("alignment").getAsLong(), stream)
        :
        pool(step).malloc(bytes, stream);
        blocks.put(block, new Allocation(address, stream));
    }

    private void free(JsonObject step, String block) {
      if (block == null) {
        pool(step).free(step.get("address").getAsBigInteger().longValue());
        return;
      }
      Allocation allocation = blocks.get(block);
      long offset = step.has("offset") ? step.get("offset").getAsLong() : 0;
      pool(step).free(allocation.address + offset, stream(step, allocation.stream));
    }

    private void check(JsonObject step, JsonObject expect, String block, String message) throws Unexpected {
      for (String which : List.of("same_address", "other_address")) {
        if (!expect.has(which)) continue;
        String other = expect.get(which).getAsString();
        boolean isSame = blocks.get(block).address == blocks.get(other).address;
        if (isSame != which.equals("same_address"))
          throw new Unexpected("address", which + " as " + other, isSame);
      }
      if (expect.has("address_zero")
          && (blocks.get(block).address == 0) != expect.get("address_zero").getAsBoolean()) {
        throw new Unexpected("address_zero", expect.get("address_zero"), blocks.get(block).address);
      }
      if (expect.has("message_contains") && !message.contains(expect.get("message_contains").getAsString())) {
        throw new Unexpected("message", expect.get("message_contains"), message);
      }
      if (!expect.has("stats")) return;
      for (var entry : expect.getAsJsonObject("stats").entrySet()) {
        long found = statistic(pool(step), entry.getKey());
        JsonElement value = entry.getValue();
        JsonObject bounds = value.isJsonObject() ? value.getAsJsonObject() : new JsonObject();
        boolean isRange = bounds.has("min") || bounds.has("max");
        long low = isRange ? (bounds.has("min") ? number(bounds.get("min")) : 0) : number(value);
        long high = isRange ? (bounds.has("max") ? number(bounds.get("max")) : Long.MAX_VALUE) : low;
        if (found < low || found > high) {
          throw new Unexpected(entry.getKey(), low == high ? low : low + " to " + high, found);
        }
      }
    }

    private long number(JsonElement value) {
      if (!value.isJsonObject()) return value.getAsLong();
      JsonObject reference = value.getAsJsonObject();
      long plus = reference.has("plus") ? reference.get("plus").getAsLong() : 0;
      return saved.get(reference.get("saved").getAsString()) + plus;
    }

    private Pool pool(JsonObject step) {
      return pools.get(step.get("pool").getAsString());
    }

    private long stream(JsonObject step, long otherwise) {
      if (!step.has("stream")) return otherwise;
      String name = step.get("stream").getAsString();
      return name.equals("unknown") ? GpuPool.STREAM_UNKNOWN : streams.get(name).id();
    }

    private long size(JsonElement size) {
      if (!size.isJsonObject()) return size.getAsBigInteger().longValue();
      double share = size.getAsJsonObject().get("of_total").getAsDouble();
      return (long) Math.floor(share * device().getTotalBytes()) / 512 * 512;
    }

    private DeviceInfo device() {
      return isSim ? GpuPool.deviceInfo(Backend.SIM, SIM_DEVICE) : GpuPool.deviceInfo(Backend.AUTO, 0);
    }

    /** A path such as all.allocated_bytes.current leads through the getters. */
    private long statistic(Pool pool, String path) {
      boolean isOfDevice = path.startsWith("device.");
      Object value = isOfDevice ? device() : pool.stats();
      for (String part : path.substring(isOfDevice ? "device.".length() : 0).split("\\.")) {
        StringBuilder getter = new StringBuilder("get");
        for (String word : part.split("_"))
          getter.append(word.substring(0, 1).toUpperCase()).append(word.substring(1));
        try {
          value = value.getClass().getMethod(getter.toString()).invoke(value);
        } catch (ReflectiveOperationException error) {
          throw new IllegalArgumentException("there is no statistic " + path, error);
        }
      }
      return ((Number) value).longValue();
    }

    private static final List<String> PATHS = paths();

    private static List<String> paths() {
      List<String> paths = new ArrayList<>(
          List.of("limit_bytes", "cached_bytes", "releasable_bytes", "slack_bytes", "hits", "misses",
              "steals", "stream_steals", "retries", "oom_handler_calls", "failed_mallocs", "streams"));
      for (String group : List.of("all", "large", "small")) {
        for (String quantity : List.of("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes",
                 "allocated_blocks", "active_blocks", "chunks")) {
          for (String value : List.of("current", "peak", "total_allocated", "total_freed")) {
            paths.add(group + "." + quantity + "." + value);
          }
        }
      }
      for (String call : List.of("create", "release", "map", "set_access", "unmap", "address", "malloc",
               "free", "event_record", "query", "stream_wait", "host_wait")) {
        paths.add("driver." + call + ".count");
      }
      return paths;
    }

    private String result(String name) {
      Map<String, Map<String, Long>> figures = new TreeMap<>();
      pools.forEach((poolName, pool) -> {
        Map<String, Long> values = new TreeMap<>();
        for (String path : PATHS) values.put(path, statistic(pool, path));
        figures.put(poolName, values);
      });
      return new Gson().toJson(new TreeMap<>(Map.of("name", name, "pools", figures)));
    }

    private void close() {
      streams.values().forEach(Stream::close);
      pools.values().forEach(Pool::close);
    }
  }
