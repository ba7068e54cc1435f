#include "report/flame_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "output/text.h"
#include "profile/sites.h"
#include "report/html.h"
#include "report/palette.h"

namespace strata::cli {
namespace {

/// Thinner boxes are invisible on any screen and at any reasonable zoom.
constexpr double kThinnest = 0.0002;

/// Deeper frames are added to this one: they would be indistinguishable, and browsers draw
/// recursively.
constexpr std::size_t kDeepest = 1000;

/// A module has a colour, and its functions have shades of it.
constexpr std::size_t kShades = 4;

std::size_t shade_of(const std::string& function) {
  std::size_t sum = 0;
  for (char c : function) sum = sum * 31 + static_cast<unsigned char>(c);
  return sum % kShades;
}

}  // namespace

FlameGraph::FlameGraph(const Profile& profile)
    : profile_(profile), first_kind_(profile.default_kind) {
  const std::vector<std::int64_t> nothing(profile.kinds.size());
  const std::string program = profile.program();
  frames_.push_back({{program.empty() ? "all" : program, "", 0}, ""});
  nodes_.push_back({0, nothing, {}});
  for (const Profile::Sample& sample : profile.samples) {
    std::size_t node = 0;
    const auto add = [&] {
      for (std::size_t i = 0; i < sample.values.size(); ++i) {
        nodes_[node].values[i] += std::max<std::int64_t>(sample.values[i], 0);
      }
    };
    add();
    std::size_t depth = 0;
    for (auto at = sample.locations.rbegin(); at != sample.locations.rend(); ++at) {
      const Profile::Location& place = profile.locations[*at];
      const std::string module =
          place.mapping == Profile::kNone
              ? std::string()
              : std::filesystem::path(profile.mappings[place.mapping].file).filename().string();
      for (auto line = place.lines.rbegin(); line != place.lines.rend() && depth < kDeepest;
           ++line, ++depth) {
        node = child_of(node, frame_of(*line, module));
        add();
      }
    }
  }
  const std::vector<std::int64_t>& all = nodes_.front().values;
  if (all[first_kind_] == 0) {
    const std::size_t allocated = profile.find_kind("alloc_space");
    if (allocated != Profile::kNone) first_kind_ = allocated;
  }
}

std::size_t FlameGraph::child_of(std::size_t node, std::size_t frame) {
  const auto [entry, is_new] = nodes_[node].children.emplace(frame, nodes_.size());
  const std::size_t child = entry->second;
  if (is_new) nodes_.push_back({frame, std::vector<std::int64_t>(profile_.kinds.size()), {}});
  return child;
}

std::size_t FlameGraph::frame_of(const Line& line, const std::string& module) {
  const Line whole{line.function, line.file, 0};
  const auto [entry, is_new] = frame_numbers_.try_emplace({whole.text(), module}, frames_.size());
  if (is_new) {
    const std::size_t next = 1 + modules_.size() % (SeriesStyle::kColours - 1);
    frames_.push_back({whole, module, modules_.emplace(module, next).first->second});
  }
  return entry->second;
}

std::vector<std::size_t> FlameGraph::children_of(const Node& node) const {
  std::vector<std::size_t> children;
  for (const auto& [frame, child] : node.children) children.push_back(child);
  std::ranges::stable_sort(children, std::greater(),
                           [&](std::size_t child) { return nodes_[child].values[first_kind_]; });
  return children;
}

std::string FlameGraph::title(const Node& node) const {
  const Frame& frame = frames_[node.frame];
  std::string text = frame.line.function;
  const std::string place = frame.line.place(false);
  if (!place.empty()) text += "\n" + place;
  if (!frame.module.empty()) text += "\n" + frame.module;
  for (std::size_t i = 0; i < profile_.kinds.size(); ++i) {
    const Profile::Kind& kind = profile_.kinds[i];
    text += fmt::format("\n{}: {}", kind.type, amount(node.values[i], kind.unit));
  }
  return text;
}

std::string FlameGraph::to_html() const {
  std::string html;
  std::size_t depth_of_all = 0;
  const auto all = static_cast<double>(nodes_.front().values[first_kind_]);
  const std::function<void(std::size_t, double, std::size_t)> draw =
      [&](std::size_t index, double left, std::size_t depth) {
        const Node& node = nodes_[index];
        const auto value = static_cast<double>(node.values[first_kind_]);
        if (value <= 0 || value / all < kThinnest) return;
        depth_of_all = std::max(depth_of_all, depth + 1);
        const Frame& frame = frames_[node.frame];
        html += fmt::format(
            "<div class=\"f\" style=\"left:{:.3f}%;width:{:.3f}%;top:{}em;--c:var(--s{});"
            "--k:{}\" title=\"{}\">{}</div>\n",
            100 * left / all, 100 * value / all, 1.7 * static_cast<double>(depth), frame.colour,
            shade_of(frame.line.function), html_escaped(title(node)),
            html_escaped(frame.line.function));
        for (std::size_t child : children_of(node)) {
          draw(child, left, depth + 1);
          left += static_cast<double>(nodes_[child].values[first_kind_]);
        }
      };
  draw(0, 0, 0);
  return fmt::format("<div class=\"flames\" style=\"height:{}em\">\n{}</div>\n",
                     1.7 * static_cast<double>(depth_of_all), html);
}

std::string FlameGraph::to_json() const {
  using nlohmann::json;
  json frames = json::array();
  for (const Frame& frame : frames_) {
    frames.push_back({frame.line.function, frame.line.place(false), frame.module, frame.colour,
                      shade_of(frame.line.function)});
  }
  const std::vector<std::int64_t>& all = nodes_.front().values;
  const std::function<json(std::size_t)> tree = [&](std::size_t index) {
    const Node& node = nodes_[index];
    json children = json::array();
    for (std::size_t child : children_of(node)) {
      const std::vector<std::int64_t>& values = nodes_[child].values;
      bool is_seen = false;
      for (std::size_t i = 0; i < all.size(); ++i) {
        is_seen |= static_cast<double>(values[i]) >= kThinnest * static_cast<double>(all[i]) &&
                   values[i] > 0;
      }
      if (is_seen) children.push_back(tree(child));
    }
    return json::array({node.frame, node.values, std::move(children)});
  };
  json kinds = json::array();
  for (const Profile::Kind& kind : profile_.kinds) kinds.push_back({kind.type, kind.unit});
  const json data = {
      {"kinds", kinds}, {"first", first_kind_}, {"frames", frames}, {"tree", tree(0)}};
  return replaced(data.dump(-1, ' ', false, json::error_handler_t::replace), "<", "\\u003c");
}

}  // namespace strata::cli
