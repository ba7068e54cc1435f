#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// The symbols of the files that a profile or trace refers to: from the file's own debug
/// information, from a separate debug file with its build ID (/usr/lib/debug), or at least from its
/// symbol table.
/// \threads  One object, one thread.
class SymbolFiles {
 public:
  /// \param done  for the notes, what was done with the files: "profiled"
  explicit SymbolFiles(std::string done);
  ~SymbolFiles();
  SymbolFiles(const SymbolFiles&) = delete;
  SymbolFiles& operator=(const SymbolFiles&) = delete;

  /// The functions at this file offset, innermost first, including inlined ones. If nothing is
  /// known, a single line "libfoo.so+0x1234": the file is missing, or its build ID is not
  /// `build_id`.
  std::vector<Line> lines_at(const std::string& file, const std::string& build_id,
                             std::uint64_t offset);

  /// A sentence for each file that has been replaced since.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  class Symbols;

  std::unique_ptr<Symbols> open(const std::string& file, const std::string& build_id);

  std::string done_;
  /// By name and build ID; nullptr for files without symbols.
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Symbols>> files_;
  std::vector<std::string> notes_;
};

/// Demangles a name, without parameters; returns any other name unchanged.
std::string readable_name(const std::string& name);

/// Gives every location of the profile at least one line, and removes the allocator's own frames
/// from its samples.
/// \returns  A sentence for each file whose symbols do not fit the profile.
std::vector<std::string> symbolise(Profile& profile);

}  // namespace strata::cli
