// SPDX-License-Identifier: Apache-2.0
// The searcher, by hand.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "attack/hunt/measure.hpp"
#include "attack/hunt/script.hpp"
#include "attack/hunt/search.hpp"

namespace hunt {
namespace {

constexpr const char* kUsage =
    "usage: hunt [--seed N] [--patterns N] [--seconds S]   draws patterns, prints those that break a law, "
    "shrunk\n"
    "       hunt --list [--seed N] --patterns N            prints patterns, for peers to play\n"
    "       hunt --pattern 'KEY=VALUE ...'                 prints what one costs, and which laws it breaks\n"
    "       hunt --pattern ... --shrink LAW                shrinks it\n"
    "       hunt --pattern ... --trace FILE                writes three periods as a trace, for gpupool "
    "replay\n";

struct Options {
  uint64_t seed = 1;
  uint64_t patterns = UINT32_MAX;
  double seconds = 60;
  std::string pattern;
  std::string law;
  std::string trace;
  bool is_list = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--list") {
      options.is_list = true;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(name + " needs a value");
    const std::string value = argv[i];
    if (name == "--seed") {
      options.seed = std::stoull(value);
    } else if (name == "--patterns") {
      options.patterns = std::stoull(value);
    } else if (name == "--seconds") {
      options.seconds = std::stod(value);
    } else if (name == "--pattern") {
      options.pattern = value;
    } else if (name == "--shrink") {
      options.law = value;
    } else if (name == "--trace") {
      options.trace = value;
    } else {
      throw std::invalid_argument(name + " is not an option");
    }
  }
  return options;
}

void print(const Finding& finding) {
  std::printf("%-12s %10.4g  %s", laws()[finding.law].name, finding.figures.values[finding.law],
              to_line(finding.pattern).c_str());
  if (finding.law == kFaults) std::printf("  # %s", finding.figures.words.data());
  std::printf("\n");
  std::fflush(stdout);
}

void print_all(const Pattern& pattern) {
  const Figures figures = measure(pattern);
  for (size_t i = 0; i < kLawCount; ++i) {
    const Law law = static_cast<Law>(i);
    const LawText& text = laws()[i];
    std::printf("%-12s %10.4g %-22s at most %-8.4g%s\n", text.name, figures.values[i], text.unit,
                text.bound(pattern), excess(law, pattern, figures) > 1 ? " BROKEN" : "");
  }
  if (figures.values[kFaults] != 0) std::printf("%s\n", figures.words.data());
}

/// tests/data/README.md has the format. A trace has no threads: the steps of all of them are in it.
void write_trace(const Pattern& pattern, const std::string& file) {
  std::ofstream out(file);
  Script script(pattern);
  std::vector<uint64_t> blocks(script.slots());
  uint64_t made = 0;
  const auto write = [&](const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (step.kind == Kind::malloc) {
        out << "a " << (blocks[step.slot] = ++made) << ' ' << step.bytes << ' ' << step.stream << '\n';
      } else if (step.kind == Kind::free) {
        out << "f " << blocks[step.slot] << '\n';
      }
    }
  };
  out << "# " << to_line(pattern) << '\n';
  for (int period = 0; period < 3; ++period) write(script.next_period());
  write(script.last_frees());
  if (!out.flush()) throw std::runtime_error(file + " cannot be written");
}

void list(const Options& options) {
  Random random(options.seed);
  for (uint64_t i = 0; i < options.patterns; ++i)
    std::printf("%s\n", to_line(draw(random, kMostLive)).c_str());
}

void search(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto has_time = [&] { return Clock::now() - begin < std::chrono::duration<double>(options.seconds); };
  Clock::duration shrinking{};
  Search search(options.seed, measure, print);
  while (search.tried() < options.patterns && has_time()) {
    search.try_one();
    const Clock::time_point now = Clock::now();
    if (shrinking < (now - begin) / 3 && search.shrink_one()) shrinking += Clock::now() - now;
  }
  std::printf("%llu patterns tried, from seed %llu\n", static_cast<unsigned long long>(search.tried()),
              static_cast<unsigned long long>(options.seed));
  for (size_t i = 0; i < kLawCount; ++i) {
    std::printf("%-12s broken by %llu\n", laws()[i].name,
                static_cast<unsigned long long>(search.broken()[i]));
  }
  std::printf("the worst of each kind:\n");
  for (const Finding& finding : search.findings()) print(finding);
}

void run(const Options& options) {
  unsetenv("GPUPOOL_SAMPLE");
  if (options.is_list) return list(options);
  if (options.pattern.empty()) return search(options);
  const Pattern pattern = from_line(options.pattern);
  if (!options.trace.empty()) return write_trace(pattern, options.trace);
  if (options.law.empty()) return print_all(pattern);
  print(shrunk({law_named(options.law), pattern, measure(pattern)}, measure));
}

}  // namespace
}  // namespace hunt

int main(int argc, char** argv) {
  try {
    hunt::run(hunt::parse(argc, argv));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "hunt: %s\n%s", error.what(), hunt::kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hunt: %s\n", error.what());
    return 1;
  }
  return 0;
}
