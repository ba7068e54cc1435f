#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// The symbols of one program or library, from its own debug information, from a separate file that
/// belongs to it by build id (/usr/lib/debug), or at least from its symbol table.
/// \threads  One object, one thread.
class Symbols {
 public:
  /// A file that is missing, or is another one than `build_id` says, has no symbols.
  Symbols(const std::string& file, const std::string& build_id);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  /// Whether the file is there but was replaced since.
  bool is_another_build() const noexcept { return is_another_build_; }

  /// The functions that were active at this offset in the file, innermost first, inlined ones
  /// included; empty if nothing is known.
  std::vector<Line> lines_at(std::uint64_t file_offset) const;

 private:
  struct Module;
  std::unique_ptr<Module> module_;
  bool is_another_build_ = false;
};

/// The symbols of all files that a profile or a trace names.
/// \threads  One object, one thread.
class SymbolFiles {
 public:
  /// \param done  what was done with the files: "profiled"
  explicit SymbolFiles(std::string done) : done_(std::move(done)) {}

  /// As Symbols has them; where nothing is known, one line is "libfoo.so+0x1234".
  std::vector<Line> lines_at(const std::string& file, const std::string& build_id,
                             std::uint64_t offset);
  /// A sentence for each file that was replaced since.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  std::string done_;
  std::map<std::pair<std::string, std::string>, Symbols> files_;  ///< by name and build id
  std::vector<std::string> notes_;
};

/// A mangled name as people read it, without parameters; any other name as it is.
std::string readable_name(const std::string& name);

/// Gives every location of the profile at least one line, and takes the allocator's own frames out
/// of its samples.
/// \returns  A sentence for each file whose symbols do not fit the profile.
std::vector<std::string> symbolise(Profile& profile);

}  // namespace strata::cli
