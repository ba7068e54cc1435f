#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "process/environment.h"

namespace strata::cli {

/// An allocator that takes part: a name, and the library to preload for it.
struct Contender {
  std::string name;
  std::string library;         ///< empty: nothing is preloaded; the command keeps its own malloc
  std::string version;         ///< from its package, else from the library itself; may be empty
  bool is_in_process = false;  ///< inside strata-cell, which selects it by its name
  Settings settings = {};      ///< environment variables of its runs

  Environment environment() const {
    Environment environment = Environment::with_allocator(library);
    environment.set(settings);
    return environment;
  }
};

/// The contender without a library.
inline constexpr const char* kSystem = "system";
inline constexpr const char* kStrata = "strata";
/// Whether a contender of that name is `strata`, with any options: "strata cache_bytes=1m".
bool names_strata(std::string_view name);
/// The name of the group default_contenders().
inline constexpr const char* kGeneral = "general";

/// Parses one contender as the user writes it: a known name, or name=/path/to/lib.so. A non-empty
/// `strata_library` replaces the libstrata.so beside this program.
/// \errors  UsageError for an unknown name without a path, and for a known allocator whose library
///          is not on this machine.
Contender parse_contender(const std::string& text, const std::string& strata_library = {});

/// The names that parse_contender() knows, installed or not.
std::vector<std::string> known_contenders();

/// Adds a contender that the user named.
/// \errors  UsageError if the name is already taken.
void add_named(std::vector<Contender>& contenders, Contender contender);
/// Adds those of a group that are not in the list yet.
void add_group(std::vector<Contender>& contenders, std::vector<Contender> group);

/// \errors  UsageError if a `strata_library` is given and none of the contenders is `strata`.
void expect_use_of(const std::string& strata_library, const std::vector<Contender>& contenders);

/// Parses a list: "system,strata,mine=./libmine.so"; "general" stands for default_contenders().
/// \errors  Those of parse_contender() and expect_use_of(); UsageError for a name given twice.
std::vector<Contender> parse_contenders(const std::string& list,
                                        const std::string& strata_library = {});

/// The default contenders: system, strata and every peer on the machine.
std::vector<Contender> default_contenders(const std::string& strata_library);

/// Checks that the dynamic linker would really preload this library; otherwise a typing error would
/// measure the system's malloc under another name.
/// \errors  UsageError: missing, not ELF, for another machine, no malloc, refused by the linker; or
///          named strata but not Strata's.
void check_preload(const Contender& contender);

/// Whether its library is Strata's, under any name.
bool is_strata(const Contender& contender);

/// Whether the output contains the dynamic linker's message that it did not preload the library.
bool was_not_preloaded(const Contender& contender, std::string_view output);

/// Fills in all versions at once, because asking the package database is slow.
void find_versions(std::vector<Contender>& contenders);

}  // namespace strata::cli
