// SPDX-License-Identifier: Apache-2.0
#include "cli/report/page.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/base/gzip.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Characters that turn the direction of what is written behind them: they would let a name disguise the
/// rest. They become U+FFFD.
std::string without_directions(std::string text) {
  static constexpr std::array<std::string_view, 12> kTurning = {"\u061c", "\u200e", "\u200f", "\u202a",
                                                                "\u202b", "\u202c", "\u202d", "\u202e",
                                                                "\u2066", "\u2067", "\u2068", "\u2069"};
  for (const std::string_view turning : kTurning) {
    for (size_t at = text.find(turning); at != std::string::npos; at = text.find(turning, at)) {
      text.replace(at, turning.size(), "\ufffd");
    }
  }
  return text;
}

/// A text of the recording's as HTML shows it. What is not UTF-8 becomes U+FFFD.
std::string shown(const std::string& text) {
  std::string escaped;
  for (const char c : without_directions(valid_utf8(text))) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i) {
      three = three << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += at + i <= bytes.size() ? kDigits[three >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::string list_of(const std::vector<std::string>& sentences) {
  std::string list = "<ul class=\"summary\">\n";
  for (const std::string& sentence : sentences) list += "<li>" + shown(sentence) + "</li>\n";
  return list + "</ul>\n";
}

std::string about(const Story& story) {
  const Recording& recording = *story.recording;
  return fmt::format(
      "<p class=\"about name\">{}: process {}, pool {} on {} ({}), {} events. Command: <code>{}</code></p>\n",
      shown(recording.file), recording.pid, story.pool, shown(one_line(story.about.device)),
      shown(one_line(story.about.name)), format_count(recording.events.size()),
      shown(one_line(recording.command)));
}

std::string advice_of(const Story& story) {
  if (story.advice.empty()) return "";
  std::vector<std::string> texts;
  texts.reserve(story.advice.size());
  for (const Advice& advice : story.advice) texts.push_back(advice.text);
  return "<h3>What to change</h3>\n" + list_of(texts);
}

std::string heading(const std::string& text) {
  return "<h3 class=\"name\">" + shown(text) + "</h3>\n";
}

std::string summary_of(const std::vector<Chapter>& chapters,
                       const std::vector<std::vector<ComparedPool>>& runs) {
  std::string text;
  auto chapter = chapters.begin();
  for (const std::vector<ComparedPool>& pools : runs) {
    for (const ComparedPool& pool : pools) {
      if (chapters.size() > 1) text += heading(fmt::format("{}, pool {}", pool.file, pool.pool));
      text += (chapter++)->summary;
    }
  }
  return text;
}

/// Pools of two runs that belong together.
class Comparisons {
 public:
  explicit Comparisons(const std::vector<std::vector<ComparedPool>>& runs) {
    for (const std::vector<ComparedPool>& pools : runs) {
      for (const ComparedPool& pool : pools) places_.emplace(&pool, places_.size());
    }
    if (runs.size() == 2) pairs_ = match_pools(runs[0], runs[1]);
  }

  std::string summary() const {
    std::string text;
    for (const PoolPair& pair : pairs_) {
      const bool is_in_both = pair.before != nullptr && pair.after != nullptr;
      if (pairs_.size() > 1 && is_in_both) text += heading(name_of(pair));
      text += list_of(tell_difference(pair));
    }
    return text;
  }

  /// Of each pair that is in both runs: the places of its chapters, and its call sites.
  Json data() const {
    Json list = Json::array();
    for (const PoolPair& pair : pairs_) {
      if (pair.before == nullptr || pair.after == nullptr) continue;
      list.push_back({{"name", name_of(pair)},
                      {"runs", {places_.at(pair.before), places_.at(pair.after)}},
                      {"pairs", sites_of(pair)}});
    }
    return list;
  }

 private:
  static std::string name_of(const PoolPair& pair) {
    const std::string first = fmt::format("Pool {}", pair.before->pool);
    if (pair.before->pool == pair.after->pool) return first;
    return fmt::format("{} of the first run, {} of the second", first, pair.after->pool);
  }

  /// Call sites that belong together; null for one that is in one run only.
  static Json sites_of(const PoolPair& pools) {
    const auto side = [](const ComparedSite* site) -> Json {
      if (site == nullptr) return {};
      const Sums& sums = site->sums;
      return {{"text", site->text},
              {"file", site->frame.file},
              {"peak", sums.peak_bytes},
              {"end", sums.end_bytes},
              {"mallocs", sums.mallocs}};
    };
    Json list = Json::array();
    for (const auto& [before, after] : match_sites(pools)) {
      list.push_back({{"tag", (after != nullptr ? after : before)->tag},
                      {"before", side(before)},
                      {"after", side(after)}});
    }
    return list;
  }

  std::map<const ComparedPool*, size_t> places_;
  std::vector<PoolPair> pairs_;
};

std::string dump(const Json& data) {
  // Names of a recording need not be UTF-8.
  return data.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string data_of(const std::vector<Chapter>& chapters, const Comparisons& comparisons) {
  std::string text = "{\"compare\":" + dump(comparisons.data()) + ",\"runs\":[";
  for (const Chapter& chapter : chapters) text += (&chapter == chapters.data() ? "" : ",") + chapter.data;
  return base64(pack_gzip(without_directions(text + "]}")));
}

std::string head(const std::string& title) {
  const PageParts& parts = kPageParts;
  return fmt::format(
      "<!doctype html>\n<!--\n{}-->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; "
      "script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>{}</style>\n</head>\n",
      parts.licence, parts.style_hash, parts.script_hash, shown(title), parts.style);
}

}  // namespace

Chapter chapter_of(const Story& story) {
  return {about(story) + list_of(tell(story)) + advice_of(story), dump(to_json(story))};
}

std::string page_of(const std::vector<Chapter>& chapters,
                    const std::vector<std::vector<ComparedPool>>& runs) {
  const PageParts& parts = kPageParts;
  const Comparisons comparisons(runs);
  const std::string title =
      fmt::format("gpupool report: {}{}", one_line(runs[0][0].file), runs.size() == 1 ? "" : " and another");
  std::string body = parts.body;
  const std::string_view place = "@COMPARE@\n";
  body.replace(body.find(place), place.size(), runs.size() == 1 ? "" : parts.compare);
  return head(title) +
         "<body>\n<a class=\"skip\" href=\"#main\">To the summary</a>\n<header><h1 class=\"name\">" +
         shown(title) +
         "</h1>\n<nav aria-label=\"Parts of the report\"><ul>\n"
         "<li><a href=\"#summary\">Summary</a></li><li><a href=\"#live\">Live bytes</a></li>"
         "<li><a href=\"#map\">Addresses</a></li><li><a href=\"#free\">Free memory</a></li>"
         "<li><a href=\"#who\">Who holds it</a></li><li><a href=\"#tables\">Tables</a></li>\n"
         "</ul></nav></header>\n<main id=\"main\">\n" +
         "<section id=\"summary\" aria-labelledby=\"summary-title\">\n"
         "<h2 id=\"summary-title\">Summary</h2>\n" +
         comparisons.summary() + summary_of(chapters, runs) + "</section>\n" + body +
         "</main>\n<footer>Made by gpupool " + shown(gpupool_version_string()) +
         ". Charts by uPlot, under the MIT licence.</footer>\n"
         "<script type=\"application/octet-stream\" id=\"data\">" +
         data_of(chapters, comparisons) + "</script>\n<script>" + parts.script +
         "</script>\n</body>\n</html>\n";
}

}  // namespace gpupool::cli
