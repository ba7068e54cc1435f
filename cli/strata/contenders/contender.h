#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// An allocator that takes part: a name and the library that is preloaded for it.
struct Contender {
  std::string name;
  std::string library;         ///< empty: nothing is preloaded, the command keeps the malloc it has
  std::string version;         ///< of its package, else what the library calls itself; may be empty
  bool is_in_process = false;  ///< lives in strata-cell and is called there by its name
};

/// The contender of no library.
inline constexpr const char* kSystem = "system";
inline constexpr const char* kStrata = "strata";
/// The group of default_contenders().
inline constexpr const char* kGeneral = "general";

/// One contender as a person writes it: a known name, or name=/path/to/lib.so. `strata_library`
/// replaces the libstrata.so beside this program unless it is empty.
/// \errors  UsageError for a name that is neither known nor given a path, and for a known allocator
///          whose library is not on this machine.
Contender parse_contender(const std::string& text, const std::string& strata_library = {});

/// The names that parse_contender() knows, whether their libraries are here or not.
std::vector<std::string> known_contenders();

/// Adds one that a person named.
/// \errors  UsageError if there is one of its name.
void add_named(std::vector<Contender>& contenders, Contender contender);
/// Adds those of a group, which leave out what is there already.
void add_group(std::vector<Contender>& contenders, std::vector<Contender> group);

/// \errors  UsageError if a `strata_library` is given and none of the contenders is `strata`.
void expect_use_of(const std::string& strata_library, const std::vector<Contender>& contenders);

/// A list of them, "system,strata,mine=./libmine.so"; "general" stands for default_contenders().
/// \errors  As of parse_contender() and expect_use_of(), and a name given twice.
std::vector<Contender> parse_contenders(const std::string& list,
                                        const std::string& strata_library = {});

/// What is compared when nothing else is asked for: system, strata and every peer on the machine.
std::vector<Contender> default_contenders(const std::string& strata_library = {});

/// Dies with a sentence unless the dynamic linker would really put this library under a program:
/// otherwise a typing error would measure the system's malloc under another name.
/// \errors  UsageError: missing, no ELF, another machine's, no malloc in it, refused by the linker;
///          named strata and not Strata's.
void check_preload(const Contender& contender);

/// Whether its library is Strata's, whatever its name is here.
bool is_strata(const Contender& contender);

/// Whether the dynamic linker says in a program's output that it did not preload the library.
bool was_not_preloaded(const Contender& contender, std::string_view output);

/// Fills in the versions, all at once, because asking the package database is slow.
void find_versions(std::vector<Contender>& contenders);

}  // namespace strata::cli
