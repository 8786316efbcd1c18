// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/descriptions.hpp"

#include <cinttypes>
#include <cstdio>

namespace gpupool::internal {
namespace {

std::string site_of(StackId stack) {
  const std::string site = describe_site(stack);
  return site.empty() ? "somebody" : site;
}

}  // namespace

std::string describe_life(const BlockRecord& life) {
  char text[160];
  std::snprintf(text, sizeof text, "block %" PRIu64 " of %" PRIu64 " bytes at 0x%" PRIx64, life.number,
                life.requested, life.address);
  std::string story = text;
  if (life.tag != 0) story += " of \"" + std::string(tag_name(life.tag)) + "\"";
  story += ", allocated by " + site_of(life.made_by);
  if (life.died_ns != 0) story += ", freed by " + site_of(life.freed_by);
  return story;
}

std::string describe_finding(const Finding& finding) {
  char text[160];
  std::snprintf(text, sizeof text, "%" PRIu64 " byte%s written %s, from +%" PRIu64 " to +%" PRIu64 ":",
                finding.count, finding.count == 1 ? " was" : "s were",
                finding.after_free ? "after the free of a block" : "beyond the end of a block", finding.first,
                finding.last);
  std::string story = text;
  for (size_t i = 0; i < finding.shown; ++i) {
    std::snprintf(text, sizeof text, " %02x", finding.bytes[i]);
    story += text;
  }
  return story + "; " + describe_life(finding.block);
}

}  // namespace gpupool::internal
