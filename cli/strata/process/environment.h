#pragma once

#include <map>
#include <string>
#include <vector>

namespace strata::cli {

/// The environment of a program that is about to start: ours, changed for it alone.
class Environment {
 public:
  static Environment inherited();
  /// The inherited one with this allocator in it and no other; with none if `library` is empty.
  static Environment with_allocator(const std::string& library);

  void set(const std::string& name, const std::string& value) { variables_[name] = value; }
  std::string get(const std::string& name) const;

  /// Puts the library in front of those that LD_PRELOAD already names.
  void preload(const std::string& library);

  /// Takes libraries out of LD_PRELOAD that define malloc themselves: with one of them inherited,
  /// "the system's malloc" would be a lie. So would it with a name that the dynamic linker could
  /// not resolve for us but might for the program: such names are taken out as well.
  void drop_preloaded_allocators();

  /// "NAME=value", each of them.
  std::vector<std::string> entries() const;
  const std::map<std::string, std::string>& variables() const noexcept { return variables_; }

 private:
  std::map<std::string, std::string> variables_;
};

/// The first library in a list like /etc/ld.so.preload that defines malloc: every program of the
/// machine has it, whatever its environment is. Empty if there is none.
std::string preloaded_everywhere(const std::string& list);

}  // namespace strata::cli
