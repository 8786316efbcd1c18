// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Json;
using System.Linq;
using GpuPool;

/// <summary>Runs tests/scenario files: RunScenarios.exe FILE... Every language's runner prints the same.</summary>
public sealed class RunScenarios {
  private const int SimDevice = 7;
  private const uint AddressesOnly = 2;

  /// <summary>A step that did not come out as expected.</summary>
  private sealed class Unexpected : Exception {
    public Unexpected(string what, object expected, object found)
        : base(what + ": expected " + expected + ", found " + found) {}
  }

  /// <summary>What Malloc gave, and the stream it was for.</summary>
  private struct Allocation {
    public ulong Address;
    public ulong Stream;
  }

  private readonly SortedDictionary<string, Pool> pools = new SortedDictionary<string, Pool>(StringComparer.Ordinal);
  private readonly Dictionary<string, GpuPool.Stream> streams = new Dictionary<string, GpuPool.Stream>();
  private readonly Dictionary<string, Allocation> blocks = new Dictionary<string, Allocation>();
  private readonly Dictionary<string, ulong> saved = new Dictionary<string, ulong>();
  private readonly bool isSim;

  private RunScenarios(JsonValue scenario) {
    isSim = scenario.ContainsKey("sim");
    if (!isSim) return;
    var config = new SimConfig { Data = AddressesOnly };
    if (scenario["sim"].ContainsKey("capacity_bytes")) config.CapacityBytes = scenario["sim"]["capacity_bytes"];
    Library.SimConfigure(SimDevice, config);
  }

  public static int Main(string[] files) {
    bool allGood = true;
    foreach (string file in files) {
      JsonValue scenario = JsonValue.Parse(File.ReadAllText(file));
      var runner = new RunScenarios(scenario);
      int number = 0;
      JsonValue step = null;
      try {
        foreach (JsonValue next in (JsonArray)scenario["steps"]) {
          number++;
          step = next;
          runner.Run(step);
        }
        Console.WriteLine(runner.Result(scenario["name"]));
      } catch (Unexpected problem) {
        Console.Error.WriteLine("{0}: step {1}: {2}: {3}", file, number, step, problem.Message);
        allGood = false;
      }
      runner.Close();
    }
    return allGood ? 0 : 1;
  }

  private void Run(JsonValue step) {
    JsonValue expect = step.ContainsKey("expect") ? step["expect"] : new JsonObject();
    string wanted = expect.ContainsKey("status") ? (string)expect["status"] : "GPUPOOL_SUCCESS";
    int from = 0, to = 1, by = 1;
    if (step.ContainsKey("for")) {
      from = step["for"][0];
      to = step["for"][1];
      by = step["for"][2];
    }
    string message = "";
    string block = null;
    for (int i = from; i < to; i += by) {
      block = step.ContainsKey("block") ? ((string)step["block"]).Replace("#", i.ToString()) : null;
      var status = Status.Success;
      try {
        Perform(step, block);
      } catch (GpuPoolException failure) {
        status = failure.Status;
        message = failure.Message;
      }
      string name = Library.StatusName(status);
      if (name != wanted) throw new Unexpected("status", wanted, name + " " + message);
    }
    Check(step, expect, block, message);
    if (!step.ContainsKey("save")) return;
    foreach (KeyValuePair<string, JsonValue> entry in step["save"]) {
      saved[entry.Key] = Statistic(pools[step["pool"]], entry.Value);
    }
  }

  private void Perform(JsonValue step, string block) {
    string name = step["pool"];
    Pool pool = pools.ContainsKey(name) ? pools[name] : null;
    switch ((string)step["op"]) {
      case "create":
        pools[name] = Create(step);
        break;
      case "destroy":
        pools.Remove(name);
        pool.Dispose();
        break;
      case "stream":
        streams[step["stream"]] = pool.CreateStream();
        break;
      case "destroy_stream":
        streams[step["stream"]].Dispose();
        streams.Remove(step["stream"]);
        break;
      case "malloc":
        Malloc(pool, step, block);
        break;
      case "free":
        Free(pool, step, block);
        break;
      case "record_stream":
        pool.RecordStream(blocks[block].Address, Stream(step, 0));
        break;
      case "release_stream":
        pool.ReleaseStream(Stream(step, 0));
        break;
      case "synchronize":
        pool.Synchronize();
        break;
      case "empty":
        pool.Empty();
        break;
      case "reset_peaks":
        pool.ResetPeaks();
        break;
      case "validate":
        pool.Validate();
        break;
      case "trim":
        pool.Trim(Size(step["target_bytes"]));
        break;
      case "reserve":
        pool.Reserve(Size(step["target_bytes"]), Stream(step, 0));
        break;
      case "set_fraction":
        pool.SetFraction(step["fraction"]);
        break;
      case "set_limit":
        pool.SetLimit(Size(step["limit_bytes"]));
        break;
      case "look":
        break;
      default:
        throw new ArgumentException("unknown op in " + step);
    }
  }

  private Pool Create(JsonValue step) {
    var config = new Config();
    if (isSim) {
      config.Backend = Backend.Sim;
      config.Device = SimDevice;
    }
    if (step.ContainsKey("fraction")) config.Fraction = step["fraction"];
    if (step.ContainsKey("limit_bytes")) config.LimitBytes = step["limit_bytes"];
    if (step.ContainsKey("slack")) config.Slack = step["slack"];
    if (step.ContainsKey("max_chunk_bytes")) config.MaxChunkBytes = step["max_chunk_bytes"];
    if (step.ContainsKey("mode")) config.Mode = (Mode)Enum.Parse(typeof(Mode), step["mode"], true);
    if (step.ContainsKey("kind")) config.Kind = (Kind)Enum.Parse(typeof(Kind), step["kind"], true);
    return new Pool(config);
  }

  private void Malloc(Pool pool, JsonValue step, string block) {
    ulong bytes = Size(step["size"]);
    ulong stream = Stream(step, 0);
    ulong address = step.ContainsKey("alignment") ? pool.MallocAligned(bytes, step["alignment"], stream)
                                                  : pool.Malloc(bytes, stream);
    blocks[block] = new Allocation { Address = address, Stream = stream };
  }

  private void Free(Pool pool, JsonValue step, string block) {
    if (block == null) {
      pool.Free(step["address"]);
      return;
    }
    ulong offset = step.ContainsKey("offset") ? (ulong)step["offset"] : 0;
    pool.Free(blocks[block].Address + offset, Stream(step, blocks[block].Stream));
  }

  private void Check(JsonValue step, JsonValue expect, string block, string message) {
    foreach (string which in new[] { "same_address", "other_address" }) {
      if (!expect.ContainsKey(which)) continue;
      bool isSame = blocks[block].Address == blocks[expect[which]].Address;
      if (isSame != (which == "same_address")) throw new Unexpected("address", which + " as " + expect[which], isSame);
    }
    if (expect.ContainsKey("address_zero") && (blocks[block].Address == 0) != (bool)expect["address_zero"]) {
      throw new Unexpected("address_zero", expect["address_zero"], blocks[block].Address);
    }
    if (expect.ContainsKey("message_contains") && !message.Contains((string)expect["message_contains"])) {
      throw new Unexpected("message", expect["message_contains"], message);
    }
    if (!expect.ContainsKey("stats")) return;
    foreach (KeyValuePair<string, JsonValue> entry in expect["stats"]) {
      ulong found = Statistic(pools[step["pool"]], entry.Key);
      JsonValue value = entry.Value;
      bool isRange = value is JsonObject && !value.ContainsKey("saved");
      ulong low = !isRange ? Number(value) : value.ContainsKey("min") ? Number(value["min"]) : 0;
      ulong high = !isRange ? low : value.ContainsKey("max") ? Number(value["max"]) : ulong.MaxValue;
      if (found < low || found > high) {
        throw new Unexpected(entry.Key, low == high ? low.ToString() : low + " to " + high, found);
      }
    }
  }

  private ulong Number(JsonValue value) {
    if (!(value is JsonObject)) return value;
    long plus = value.ContainsKey("plus") ? (long)value["plus"] : 0;
    return (ulong)((long)saved[value["saved"]] + plus);
  }

  private ulong Stream(JsonValue step, ulong otherwise) {
    if (!step.ContainsKey("stream")) return otherwise;
    string name = step["stream"];
    return name == "unknown" ? Library.StreamUnknown : streams[name];
  }

  private ulong Size(JsonValue size) {
    if (!(size is JsonObject)) return size;
    return (ulong)Math.Floor((double)size["of_total"] * Device().TotalBytes) / 512 * 512;
  }

  private DeviceInfo Device() {
    return isSim ? Library.DeviceInfo(Backend.Sim, SimDevice) : Library.DeviceInfo(Backend.Auto, 0);
  }

  // A path such as all.allocated_bytes.current leads through the properties.
  private ulong Statistic(Pool pool, string path) {
    bool isOfDevice = path.StartsWith("device.", StringComparison.Ordinal);
    object value = isOfDevice ? (object)Device() : pool.Stats();
    foreach (string part in path.Split('.').Skip(isOfDevice ? 1 : 0)) {
      string name = string.Concat(part.Split('_').Select(word => char.ToUpperInvariant(word[0]) + word.Substring(1)));
      value = value.GetType().GetProperty(name).GetValue(value);
    }
    return Convert.ToUInt64(value);
  }

  private static readonly string[] Paths = AllPaths().OrderBy(path => path, StringComparer.Ordinal).ToArray();

  private static IEnumerable<string> AllPaths() {
    var fields = new[] { "limit_bytes", "cached_bytes", "releasable_bytes", "slack_bytes", "hits", "misses", "steals",
                         "stream_steals", "retries", "oom_handler_calls", "failed_mallocs", "streams" };
    var groups = new[] { "all", "large", "small" };
    var quantities = new[] { "requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes",
                             "allocated_blocks", "active_blocks", "chunks" };
    var values = new[] { "current", "peak", "total_allocated", "total_freed" };
    var calls = new[] { "create", "release", "map", "set_access", "unmap", "address", "malloc", "free",
                        "event_record", "query", "stream_wait", "host_wait" };
    return fields.Concat(from g in groups from q in quantities from v in values select g + "." + q + "." + v)
        .Concat(calls.Select(call => "driver." + call + ".count"));
  }

  private string Result(string name) {
    var figures = from pool in pools
                  let values = Paths.Select(path => "\"" + path + "\":" + Statistic(pool.Value, path))
                  select "\"" + pool.Key + "\":{" + string.Join(",", values) + "}";
    return "{\"name\":\"" + name + "\",\"pools\":{" + string.Join(",", figures) + "}}";
  }

  private void Close() {
    foreach (GpuPool.Stream stream in streams.Values) stream.Dispose();
    foreach (Pool pool in pools.Values) pool.Dispose();
  }
}
