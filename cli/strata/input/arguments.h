#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// \file  Strict parsers for command-line text. Errors name what was not understood.

namespace strata::cli {

/// The command line, split at the first "--": our arguments before it, the measured command after
/// it. The split precedes any parsing, so the command's options are never taken for ours.
struct CommandLine {
  std::vector<std::string> options;
  std::vector<std::string> command;
  bool has_separator = false;
};
CommandLine split_at_separator(const std::vector<std::string>& arguments);

/// Parses all of `text` as a decimal integer in [lowest, highest].
/// \errors  UsageError, which names the option, the text and the range: "1x", "", "-1", overflow.
std::int64_t parse_count(std::string_view option, std::string_view text, std::int64_t lowest,
                         std::int64_t highest);

/// The same in bytes; accepts the suffixes k, m and g.
std::int64_t parse_size(std::string_view option, std::string_view text, std::int64_t lowest,
                        std::int64_t highest);

/// Parses all of `text` as seconds: from 0 to a year, fractions allowed.
double parse_seconds(std::string_view option, std::string_view text);

/// Parses all of `text` as a number from 0 to 1.
double parse_share(std::string_view option, std::string_view text);

/// Splits "a,b,c".
/// \errors  UsageError for an empty part.
std::vector<std::string> split_list(std::string_view option, std::string_view text);

/// Splits a list of function names, which may contain commas in brackets: "f<a, b>,g" has two.
std::vector<std::string> split_names(std::string_view option, std::string_view text);

/// Converts "name=value" to the library's environment variable: {"STRATA_NAME", "value"}.
/// \errors  UsageError for a name that is empty or not made of letters, digits, - and _.
std::pair<std::string, std::string> parse_setting(std::string_view option, std::string_view text);

/// Parses "USR2", "SIGUSR2" or a number as a signal that a program can handle and go on.
/// \errors  UsageError for an unknown signal, for those that no program can handle, and for those
///          of faults.
int parse_signal(std::string_view option, const std::string& text);

}  // namespace strata::cli
