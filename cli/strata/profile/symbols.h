#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// The symbols of all files that a profile or a trace names: from a file's own debug information,
/// from a separate file that belongs to it by build id (/usr/lib/debug), or at least from its
/// symbol table.
/// \threads  One object, one thread.
class SymbolFiles {
 public:
  /// \param done  what was done with the files: "profiled"
  explicit SymbolFiles(std::string done);
  ~SymbolFiles();
  SymbolFiles(const SymbolFiles&) = delete;
  SymbolFiles& operator=(const SymbolFiles&) = delete;

  /// The functions that were active at this offset in the file, innermost first, inlined ones
  /// included. Where nothing is known, one line is "libfoo.so+0x1234": of a file that is missing,
  /// or is another one than `build_id` says.
  std::vector<Line> lines_at(const std::string& file, const std::string& build_id,
                             std::uint64_t offset);

  /// A sentence for each file that was replaced since.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  class Symbols;

  std::unique_ptr<Symbols> open(const std::string& file, const std::string& build_id);

  std::string done_;
  /// By name and build id; nullptr for those that have none.
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Symbols>> files_;
  std::vector<std::string> notes_;
};

/// A mangled name as people read it, without parameters; any other name as it is.
std::string readable_name(const std::string& name);

/// Gives every location of the profile at least one line, and takes the allocator's own frames out
/// of its samples.
/// \returns  A sentence for each file whose symbols do not fit the profile.
std::vector<std::string> symbolise(Profile& profile);

}  // namespace strata::cli
