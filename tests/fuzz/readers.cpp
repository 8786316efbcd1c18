// SPDX-License-Identifier: Apache-2.0
#include "fuzz/readers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/base/gzip.hpp"
#include "cli/base/library.hpp"
#include "cli/commands/import.hpp"
#include "cli/formats/export_formats.hpp"
#include "cli/recording/packing.hpp"
#include "cli/recording/recorded_pool.hpp"
#include "cli/recording/recording.hpp"
#include "cli/recording/recording_writer.hpp"
#include "cli/recording/trace.hpp"

namespace gpupool::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace gpupool::cli;  // NOLINT: its readers

/// Files of this process, which go with it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "gpupool-readers-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::string file(const char* name) const { return (path_ / name).string(); }

  /// A name for a new file: ext4 writes to the disk at once what takes an old one's place.
  std::string new_file(const char* name) const {
    fs::remove(path_ / name);
    return file(name);
  }

  std::string write(const char* name, std::string_view bytes) const {
    std::ofstream(new_file(name), std::ios::binary) << bytes;
    return file(name);
  }

 private:
  fs::path path_;
};

const Folder& folder() {
  static const Folder made;
  return made;
}

/// "FILE:LINE: ..." or "FILE: at byte N: ...", in one line that no terminal takes for orders.
void check_message(std::string_view message, const std::string& file) {
  std::string_view rest = message;
  const auto fail = [&](const char* why) { throw Misread(std::string(why) + ": " + std::string(message)); };
  if (!rest.starts_with(file + ":")) fail("an error does not name the file");
  rest.remove_prefix(file.size() + 1);
  if (rest.find("--") != std::string_view::npos) return;  // about options, not about a place
  constexpr std::string_view kAtByte = " at byte ";
  if (rest.starts_with(kAtByte)) rest.remove_prefix(kAtByte.size());
  const auto digits = std::find_if_not(rest.begin(), rest.end(),
                                       [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
  if (digits == rest.begin() || digits == rest.end() || *digits != ':') fail("an error names no place");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(message.begin(), message.end(), is_control)) fail("an error has more than a line of text");
}

/// Whether `read` took the file. Nothing but an InputError may come out of it.
template <typename Read>
bool takes(const std::string& file, Read read) {
  try {
    read();
    return true;
  } catch (const InputError& error) {
    check_message(error.what(), file);
    return false;
  }
}

/// What was taken must be of use: `use` may not refuse it.
template <typename Use>
void must(const char* what, Use use) {
  try {
    use();
  } catch (const InputError& error) {
    throw Misread(std::string(what) + ": " + error.what());
  }
}

/// A recording that was read, in each format that it can be exported to.
void use_recording(const Recording& recording) {
  for (const auto& about : mallocs_by_pool(recording)) {
    const uint64_t pool = about.first;
    const bool has_bytes =
        std::any_of(recording.events.begin(), recording.events.end(), [&](const Happened& event) {
          return event.pool == pool && event.bytes != 0 &&
                 (event.kind == cli::Kind::malloc || event.kind == cli::Kind::have);
        });
    if (!has_bytes) continue;  // which no trace may be
    std::string text;
    must("a recording makes no trace", [&] {
      write_trace(recording, pool, [&](std::string_view piece) { text += piece; });
      (void)parse_trace(text, "trace");
    });
    must("a recording cannot be exported", [&] {
      (void)torch_snapshot_of(recording, pool, 100, true);
      write_chrome_trace(recording, pool, [](std::string_view) {});
      (void)prometheus_text_of(recording);
    });
  }
}

bool read_as_recording(const std::string& file) {
  Recording whole;
  const bool is_whole = takes(file, [&] { whole = read_recording(file); });
  const std::string saved = folder().new_file("saved");
  Damage damage;
  const bool is_saved = takes(file, [&] { pack_recording(file, saved, damage); });
  if (is_whole && !is_saved) throw Misread("a whole recording cannot be salvaged");
  if (!is_saved) return false;
  Recording again;
  must("what was salvaged cannot be read", [&] { again = read_recording(saved); });
  if (is_whole && (damage.parts != 0 || again.events.size() != whole.events.size()))
    throw Misread("a whole recording loses a part when it is salvaged");
  use_recording(again);
  return is_whole;
}

bool read_as_trace(const std::string& file) {
  Trace trace;
  if (!takes(file, [&] { trace = load_trace(file); })) return false;
  std::vector<bool> live(trace.slot_count);
  trace.events.insert(trace.events.end(), trace.leftovers.begin(), trace.leftovers.end());
  for (const TraceEvent& event : trace.events) {
    if (event.slot >= live.size() || event.stream >= trace.streams.size() ||
        live[event.slot] == event.is_malloc)
      throw Misread("a trace's slots do not fit its events");
    live[event.slot] = event.is_malloc;
  }
  if (std::find(live.begin(), live.end(), true) != live.end()) throw Misread("a trace has lost a free");
  return true;
}

bool read_as_import(const std::string& file, const char* format) {
  ImportOptions options;
  options.file = file;
  options.output = folder().new_file("imported");
  options.format = format;
  if (!takes(file, [&] { run_import(options); })) return false;
  must("what was imported cannot be read", [&] {
    if (std::string_view(format) == "text") {
      (void)load_trace(options.output);
    } else {
      use_recording(read_recording(options.output));
    }
  });
  return true;
}

/// Two blocks on two streams, a tag, a stack and a failure.
Recording small_recording() {
  Recording made;
  made.command = "train";
  made.library = "0.2.0";
  made.is_ended = true;
  made.threads = {{7, "main"}};
  made.pools[1] = {"cuda:0", "NVIDIA H200", uint64_t{1} << 37, 0};
  made.tags[1] = "weights";
  made.stacks[1] = "forward (model.py:12)\nmain (train.py:3)";
  const auto add = [&](cli::Kind kind, uint64_t address, uint64_t bytes, uint64_t stream) {
    const uint64_t ns = 1000 * (made.events.size() + 1);
    const bool is_malloc = kind == cli::Kind::malloc;
    made.events.push_back({ns, stream, address, bytes, 1, 0, is_malloc ? 1U : 0U,
                           static_cast<uint16_t>(is_malloc), kind,
                           static_cast<uint32_t>(made.events.size())});
  };
  constexpr uint64_t kBase = uint64_t{1} << 40;
  add(cli::Kind::map, kBase, 4 << 20, 0);
  add(cli::Kind::malloc, kBase, 1000, 0);
  add(cli::Kind::malloc, kBase + 4096, 1 << 20, 5);
  add(cli::Kind::use, kBase, 0, 5);
  add(cli::Kind::failed, 0, uint64_t{1} << 40, 0);
  add(cli::Kind::free, kBase, 0, 0);
  add(cli::Kind::free, kBase + 4096, 0, 5);
  add(cli::Kind::unmap, kBase, 4 << 20, 0);
  return made;
}

std::string contents_of(const std::string& file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

/// As the library writes it: chunks of 64 KiB, of which the fuzzer gets the beginning.
std::string recorded() {
  const std::string file = folder().file("recorded");
  check(gpupool_record_start(file.c_str(), 0));
  {
    const Pool pool = create_pool(config_for(find_device("sim")));
    gpupool_tag_push("a tag");
    for (int i = 0; i < 20; ++i) {
      gpupool_ptr_t block = 0;
      check(gpupool_malloc(pool.handle(), 700U << (i % 5), 0, &block));
      check(gpupool_free(pool.handle(), block, 0));
      check(gpupool_mark("a step"));
    }
    gpupool_tag_pop();
  }
  check(gpupool_record_stop());
  std::string bytes = contents_of(file);
  fs::remove(file);
  constexpr size_t kChunk = size_t{64} << 10;
  if (bytes.size() > 4096 + kChunk) bytes.resize(4096 + kChunk);
  return bytes;
}

constexpr std::array<bool (*)(const std::string&), 4> kReaders{
    read_as_recording, read_as_trace, [](const std::string& file) { return read_as_import(file, "text"); },
    [](const std::string& file) { return read_as_import(file, "recording"); }};
enum Reader : uint8_t { kRecording, kTrace, kText, kSnapshot };

}  // namespace

bool read_file(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  return kReaders[data[0] % kReaders.size()](folder().write("given", bytes.substr(1)));
}

std::vector<std::string> reader_seeds() {
  const Recording recording = small_recording();
  const std::string snapshot = torch_snapshot_of(recording, 1, 100, false);
  std::string trace;
  write_trace(recording, 1, [&](std::string_view piece) { trace += piece; });
  const std::string log =
      "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00,allocate,0x7f0000000000,1000,0x0\n"
      "1,10:00:02,allocate failure,(nil),99999999,0x0\n2,10:00:03,free,0x7f0000000000,1000,0x0\n";
  // As Python's protocol 0 has it.
  const std::string old =
      "(dp0\nVdevice_traces\np1\n(lp2\n(lp3\n(dp4\nVaction\np5\nVsegment_alloc\np6\nsVaddr\np7\nI4096\n"
      "sVsize\np8\nI2097152\nsVstream\np9\nI0\nsVtime_us\np10\nI5\nsa(dp11\ng5\nValloc\np12\nsg7\n"
      "I4096\nsg8\nI512\nsg9\nI0\nsa(dp13\ng5\nVfree\np14\nsg7\nI4096\nsg8\nI512\nsg9\nI0\n"
      "saasVsegments\np15\n(lp16\ns.";
  std::vector<std::string> seeds;
  const auto add = [&](Reader reader, const std::string& bytes) {
    seeds.push_back(static_cast<char>(reader) + bytes);
  };
  const std::string whole = recorded();
  add(kRecording, whole);
  add(kRecording, pack_gzip(whole));
  add(kRecording, pack_chunks(bytes_of_recording(recording)));
  add(kRecording, bytes_of_recording(recording));
  add(kTrace, trace);
  add(kTrace,
      "#! gpupool-trace 2\n# duration 2.5\n#g kv\na 7 1000 0\n#u 7 3\n#m step\na 9 4096 3\nf 7\nf 9\n");
  add(kTrace, pack_gzip(trace));
  add(kText, log);
  add(kText, snapshot);
  add(kSnapshot, snapshot);
  add(kSnapshot, old);
  return seeds;
}

}  // namespace gpupool::fuzz
