#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// All stacks of a profile laid upon each other: who called whom, and how much each call is worth.
/// The root is the whole program; a child is what its parent called.
///   Always: the values of a node are at least the sums of its children's.
class FlameGraph {
 public:
  struct Node {
    std::size_t frame = 0;                        ///< in frames()
    std::vector<std::int64_t> values;             ///< one for each kind
    std::map<std::size_t, std::size_t> children;  ///< frame → node
  };
  struct Frame {
    Line line;  ///< of no line in particular: calls of one function are one box
    std::string module;
  };

  /// \pre  the profile is symbolised
  explicit FlameGraph(const Profile& profile);

  const std::vector<Node>& nodes() const noexcept { return nodes_; }  ///< the first is the root
  const std::vector<Frame>& frames() const noexcept { return frames_; }

  /// The kind that is shown first: the profile's own, or one that has anything at all.
  std::size_t first_kind() const noexcept { return first_kind_; }

  /// A drawing that needs no script.
  std::string to_html() const;
  /// The same as data, for the script: safe to stand within a page.
  std::string to_json() const;

 private:
  std::size_t child_of(std::size_t node, std::size_t frame);
  std::size_t frame_of(const Line& line, const std::string& module);
  std::vector<std::size_t> children_of(const Node& node) const;  ///< the largest first
  std::string title(const Node& node) const;

  const Profile& profile_;
  std::vector<Node> nodes_;
  std::vector<Frame> frames_;
  std::map<std::pair<std::string, std::string>, std::size_t> frame_numbers_;
  std::map<std::string, std::size_t> modules_;
  std::size_t first_kind_ = 0;
};

}  // namespace strata::cli
