#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// \file  What people type, taken apart strictly: what is not understood is refused by name.

namespace strata::cli {

/// The command line cut at the first "--": ours before it, the measured command after it. Cut
/// before any parser sees it, so that nothing in the command can be mistaken for an option of ours.
struct CommandLine {
  std::vector<std::string> options;
  std::vector<std::string> command;
  bool has_separator = false;
};
CommandLine split_at_separator(const std::vector<std::string>& arguments);

/// The whole of `text` as a decimal integer in [lowest, highest].
/// \errors  UsageError naming the option, the text and the range: "1x", "", "-1", overflow.
std::int64_t parse_count(std::string_view option, std::string_view text, std::int64_t lowest,
                         std::int64_t highest);

/// The same in bytes; k, m and g after the number are understood.
std::int64_t parse_size(std::string_view option, std::string_view text, std::int64_t lowest,
                        std::int64_t highest);

/// The whole of `text` as seconds, at least 0 and at most a year; fractions are welcome.
double parse_seconds(std::string_view option, std::string_view text);

/// The whole of `text` as a number from 0 to 1.
double parse_share(std::string_view option, std::string_view text);

/// "a,b,c" as its parts.
/// \errors  UsageError for an empty part.
std::vector<std::string> split_list(std::string_view option, std::string_view text);

/// The same of functions' names, which hold commas between brackets: "f<a, b>,g" are two.
std::vector<std::string> split_names(std::string_view option, std::string_view text);

/// "name=value" as the environment variable that the library reads: {"STRATA_NAME", "value"}.
/// \errors  UsageError for a name that is empty or not made of letters, digits, - and _.
std::pair<std::string, std::string> parse_setting(std::string_view text);

}  // namespace strata::cli
