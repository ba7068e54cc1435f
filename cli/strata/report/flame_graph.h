#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"
#include "report/page.h"

namespace strata::cli {

/// All stacks of a profile merged into a tree of calls, with the amounts of each call. The root is
/// the whole program; a node's children are the functions that it called.
///   Always: a node's values are at least the sums of its children's.
class FlameGraph {
 public:
  struct Node {
    std::size_t frame = 0;                        ///< in frames()
    std::vector<std::int64_t> values;             ///< one per kind
    std::map<std::size_t, std::size_t> children;  ///< frame → node
  };
  struct Frame {
    Line line;  ///< without a line number: all calls of a function share a box
    std::string module;
    std::size_t colour = 0;  ///< of the module; 0: of the whole program
  };

  /// \pre  the profile has symbols
  explicit FlameGraph(const Profile& profile);

  const std::vector<Node>& nodes() const noexcept { return nodes_; }  ///< the first is the root
  const std::vector<Frame>& frames() const noexcept { return frames_; }

  /// The kind to show first: the profile's default, or one with nonzero values.
  std::size_t first_kind() const noexcept { return first_kind_; }

  /// Draws it without a script.
  std::string to_html() const;
  /// The data for the script, escaped for embedding in a page.
  std::string to_json() const;

 private:
  std::size_t child_of(std::size_t node, std::size_t frame);
  std::size_t frame_of(const Line& line, const std::string& module);
  std::vector<std::size_t> children_of(const Node& node) const;  ///< largest first
  std::string title(const Node& node) const;

  const Profile& profile_;
  std::vector<Node> nodes_;
  std::vector<Frame> frames_;
  std::map<std::pair<std::string, std::string>, std::size_t> frame_numbers_;
  std::map<std::string, std::size_t> modules_;  ///< their colours
  std::size_t first_kind_ = 0;
};

/// Makes the page of a heap profile: the flame graph, and a table of the allocating places.
/// \param title  empty: the program's name
/// \param notes  sentences that the reader must know
/// \pre   the profile has symbols
Page flame_page(const Profile& profile, const std::string& title,
                const std::vector<std::string>& notes);

}  // namespace strata::cli
