// SPDX-License-Identifier: Apache-2.0
#include "cli/report/page.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/base/gzip.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/report/comparison.hpp"
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

std::string summary(const std::vector<Story>& stories, const std::vector<size_t>& compared) {
  std::string text =
      "<section id=\"summary\" aria-labelledby=\"summary-title\">\n<h2 id=\"summary-title\">Summary</h2>\n";
  if (!compared.empty()) text += list_of(tell_difference(stories[compared[0]], stories[compared[1]]));
  for (const Story& story : stories) {
    if (stories.size() > 1) {
      text += fmt::format("<h3 class=\"name\">{}, pool {}</h3>\n", shown(story.recording->file), story.pool);
    }
    text += about(story) + list_of(tell(story)) + advice_of(story);
  }
  return text + "</section>\n";
}

/// Call sites of two runs that belong together; null for one that is in one run only.
Json pairs_of(const Story& before, const Story& after) {
  const auto side = [](const std::optional<ComparedSite>& site) -> Json {
    if (!site) return {};
    const Sums& sums = site->sums;
    return {{"text", site->text},
            {"file", site->frame.file},
            {"peak", sums.peak_bytes},
            {"end", sums.end_bytes},
            {"mallocs", sums.mallocs}};
  };
  Json pairs = Json::array();
  for (const SitePair& pair : match_sites(before, after)) {
    pairs.push_back({{"tag", pair.tag}, {"before", side(pair.before)}, {"after", side(pair.after)}});
  }
  return pairs;
}

std::string data_of(const std::vector<Story>& stories, const std::vector<size_t>& compared) {
  Json data = {{"runs", Json::array()}, {"compare", compared.empty() ? Json() : Json(compared)}};
  if (!compared.empty()) data["pairs"] = pairs_of(stories[compared[0]], stories[compared[1]]);
  for (const Story& story : stories) data["runs"].push_back(to_json(story));
  // Names of a recording need not be UTF-8.
  return base64(pack_gzip(without_directions(data.dump(-1, ' ', false, Json::error_handler_t::replace))));
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

std::string page_of(const std::vector<Story>& stories, const std::vector<size_t>& compared) {
  const PageParts& parts = kPageParts;
  const std::string title = fmt::format("gpupool report: {}{}", one_line(stories.front().recording->file),
                                        compared.empty() ? "" : " and another");
  std::string body = parts.body;
  const std::string_view place = "@COMPARE@\n";
  body.replace(body.find(place), place.size(), compared.empty() ? "" : parts.compare);
  return head(title) +
         "<body>\n<a class=\"skip\" href=\"#main\">To the summary</a>\n<header><h1 class=\"name\">" +
         shown(title) +
         "</h1>\n<nav aria-label=\"Parts of the report\"><ul>\n"
         "<li><a href=\"#summary\">Summary</a></li><li><a href=\"#live\">Live bytes</a></li>"
         "<li><a href=\"#map\">Addresses</a></li><li><a href=\"#free\">Free memory</a></li>"
         "<li><a href=\"#who\">Who holds it</a></li><li><a href=\"#tables\">Tables</a></li>\n"
         "</ul></nav></header>\n<main id=\"main\">\n" +
         summary(stories, compared) + body + "</main>\n<footer>Made by gpupool " +
         shown(gpupool_version_string()) +
         ". Charts by uPlot, under the MIT licence.</footer>\n"
         "<script type=\"application/octet-stream\" id=\"data\">" +
         data_of(stories, compared) + "</script>\n<script>" + parts.script + "</script>\n</body>\n</html>\n";
}

}  // namespace gpupool::cli
