// SPDX-License-Identifier: Apache-2.0
#include "cli/top/sites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "cli/recording/frame.hpp"

namespace gpupool::cli {
namespace {

/// "forward (model.py)" of "forward (model.py:12)", "load (train)" of "load+0x35 (train)".
std::string function_of(const std::string& frame) {
  Frame parts = split_frame(frame);
  if (parts.file.empty()) return frame;
  if (parts.line == 0) parts.function.resize(std::min(parts.function.rfind("+0x"), parts.function.size()));
  return fmt::format("{} ({})", parts.function, parts.file);
}

void add(SiteLine& line, const ShownHolder& holder, bool is_own) {
  line.total += holder.live_bytes;
  if (is_own) line.own += holder.live_bytes;
  line.oldest_ns = std::max(line.oldest_ns, holder.oldest_ns);
}

bool comes_first(const SiteLine& a, const SiteLine& b, SiteOrder order) {
  const auto figure = [order](const SiteLine& line) {
    return order == SiteOrder::own ? line.own : order == SiteOrder::oldest ? line.oldest_ns : line.total;
  };
  const uint64_t first = figure(a);
  const uint64_t second = figure(b);
  return std::tie(second, b.total, a.name) < std::tie(first, a.total, b.name);
}

/// A frame that is called by the one above it; the first stands for the whole.
struct Node {
  SiteLine line;
  std::vector<size_t> callees;
};

class Tree {
 public:
  explicit Tree(const std::vector<ShownHolder>& holders) : nodes_(1) {
    for (const ShownHolder& holder : holders) add_stack(holder);
  }

  std::vector<SiteLine> lines(SiteOrder order, const std::set<uint64_t>& folded) {
    std::vector<SiteLine> lines;
    std::vector<size_t> left;  // the next one last
    push_callees(0, order, left);
    while (!left.empty()) {
      const size_t at = left.back();
      left.pop_back();
      lines.push_back(nodes_[at].line);
      if (!folded.contains(nodes_[at].line.key)) push_callees(at, order, left);
    }
    return lines;
  }

 private:
  void add_stack(const ShownHolder& holder) {
    size_t at = 0;
    for (size_t left = holder.frames.size(); left != 0; --left) {
      at = callee(at, holder.frames[left - 1]);
      add(nodes_[at].line, holder, left == 1);
    }
    if (!holder.tag.empty())
      add(nodes_[callee(at, fmt::format("tag \"{}\"", holder.tag))].line, holder, true);
  }

  size_t callee(size_t caller, const std::string& name) {
    const auto [found, is_new] = places_.try_emplace({caller, name}, nodes_.size());
    if (is_new) {
      Node& node = nodes_.emplace_back();
      node.line.name = name;
      node.line.key = (nodes_[caller].line.key ^ std::hash<std::string>{}(name)) * 0x9e3779b97f4a7c15;
      nodes_[caller].callees.push_back(found->second);
      nodes_[caller].line.has_callees = true;
    }
    return found->second;
  }

  void push_callees(size_t at, SiteOrder order, std::vector<size_t>& left) {
    std::vector<size_t>& callees = nodes_[at].callees;
    std::sort(callees.begin(), callees.end(),
              [&](size_t a, size_t b) { return comes_first(nodes_[b].line, nodes_[a].line, order); });
    const size_t depth = nodes_[at].line.depth + (at != 0 && callees.size() > 1 ? 1 : 0);
    for (const size_t each : callees) nodes_[each].line.depth = depth;
    left.insert(left.end(), callees.begin(), callees.end());
  }

  std::vector<Node> nodes_;
  std::map<std::pair<size_t, std::string>, size_t> places_;
};

bool is_native(const std::string& frame) {
  return split_frame(frame).line == 0;
}

}  // namespace

std::vector<ShownHolder> without_native(std::vector<ShownHolder> holders) {
  for (ShownHolder& each : holders) {
    if (!std::all_of(each.frames.begin(), each.frames.end(), is_native))
      std::erase_if(each.frames, is_native);
  }
  return holders;
}

std::vector<SiteLine> functions_of(const std::vector<ShownHolder>& holders, SiteOrder order) {
  std::map<std::string, SiteLine> functions;
  for (const ShownHolder& holder : holders) {
    std::set<std::string> seen;  // of what calls itself, once
    for (const std::string& frame : holder.frames) {
      std::string name = function_of(frame);
      SiteLine& line = functions[name];
      if (seen.insert(std::move(name)).second) add(line, holder, seen.size() == 1);
    }
  }
  std::vector<SiteLine> lines;
  for (auto& [name, line] : functions) {
    line.name = name;
    line.key = std::hash<std::string>{}(name);
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end(),
            [&](const SiteLine& a, const SiteLine& b) { return comes_first(a, b, order); });
  return lines;
}

std::vector<SiteLine> tree_of(const std::vector<ShownHolder>& holders, SiteOrder order,
                              const std::set<uint64_t>& folded) {
  return Tree(holders).lines(order, folded);
}

}  // namespace gpupool::cli
