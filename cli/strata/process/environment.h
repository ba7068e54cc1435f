#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace strata::cli {

/// Names and values of variables, in the order in which they are set.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// The environment for a child process: a modified copy of ours.
class Environment {
 public:
  static Environment inherited();
  /// The inherited environment with this allocator preloaded and no other; with none if `library`
  /// is empty.
  static Environment with_allocator(const std::string& library);

  void set(const std::string& name, const std::string& value) { variables_[name] = value; }
  void set(const Settings& settings) {
    for (const auto& [name, value] : settings) set(name, value);
  }
  std::string get(const std::string& name) const;

  /// Adds the library in front of those in LD_PRELOAD.
  void preload(const std::string& library);

  /// Removes libraries from LD_PRELOAD that define malloc: otherwise "the system's malloc" could be
  /// one of them. Also removes names that the dynamic linker does not resolve for us, because it
  /// might for the program.
  void drop_preloaded_allocators();

  /// All variables, as "NAME=value".
  std::vector<std::string> entries() const;
  const std::map<std::string, std::string>& variables() const noexcept { return variables_; }

 private:
  std::map<std::string, std::string> variables_;
};

/// The first library that defines malloc in a list like /etc/ld.so.preload, whose libraries every
/// program gets whatever its environment is. Empty if there is none.
std::string preloaded_everywhere(const std::string& list);

}  // namespace strata::cli
