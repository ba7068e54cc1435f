#include "input/arguments.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <optional>

#include "input/usage_error.h"
#include "shared/words.h"

namespace strata::cli {
namespace {

constexpr double kLongestSeconds = 366.0 * 24 * 3600;

/// Parses "USR2", "SIGUSR2" or a number; 0 if it is not a signal.
int signal_named(const std::string& text) {
  const std::string name = text.starts_with("SIG") ? text.substr(3) : text;
  for (int signal = 1; signal < 32; ++signal) {
    const char* const known = ::sigabbrev_np(signal);
    if (known != nullptr && name == known) return signal;
  }
  const int number = parse_number<int>(text).value_or(0);
  return number > 0 && number <= SIGRTMAX ? number : 0;
}

/// Whether the signal would recur endlessly when its handler returns.
bool is_of_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGTRAP || signal == SIGSYS;
}

}  // namespace

CommandLine split_at_separator(const std::vector<std::string>& arguments) {
  CommandLine line;
  auto separator = std::ranges::find(arguments, "--");
  line.options.assign(arguments.begin(), separator);
  if (separator != arguments.end()) {
    line.has_separator = true;
    line.command.assign(separator + 1, arguments.end());
  }
  return line;
}

std::int64_t parse_count(std::string_view option, std::string_view text, std::int64_t lowest,
                         std::int64_t highest) {
  const std::optional<std::int64_t> value = parse_number<std::int64_t>(text);
  if (!value || *value < lowest || *value > highest) {
    throw UsageError(fmt::format("{} is '{}'; give a whole number from {} to {}", option, text,
                                 lowest, highest));
  }
  return *value;
}

std::int64_t parse_size(std::string_view option, std::string_view text, std::int64_t lowest,
                        std::int64_t highest) {
  std::string_view digits = text;
  int shift = 0;
  constexpr std::string_view kUnits = "kmg";
  if (!digits.empty()) {
    const auto unit =
        kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(digits.back()))));
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      digits.remove_suffix(1);
    }
  }
  const std::optional<std::int64_t> value = parse_number<std::int64_t>(digits);
  if (!value || *value < 0 || *value > highest >> shift || *value << shift < lowest) {
    throw UsageError(fmt::format("{} is '{}'; give bytes from {} to {}; k, m and g are understood",
                                 option, text, lowest, highest));
  }
  return *value << shift;
}

double parse_seconds(std::string_view option, std::string_view text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || *value < 0 || *value > kLongestSeconds) {
    throw UsageError(fmt::format("{} is '{}'; give seconds as a number from 0 to {:.0f}, as in 2.5",
                                 option, text, kLongestSeconds));
  }
  return *value;
}

double parse_share(std::string_view option, std::string_view text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || *value < 0 || *value > 1) {
    throw UsageError(
        fmt::format("{} is '{}'; give a number from 0 to 1, as in 0.05", option, text));
  }
  return *value;
}

namespace {

/// The first comma outside brackets. The brackets in names like "operator<<" do not count.
std::size_t comma_between_names(std::string_view text) {
  constexpr std::string_view kOperator = "operator";
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kOperator)) {
      i = std::min(text.find_first_not_of("<>=-", i + kOperator.size()), text.size()) - 1;
      continue;
    }
    const char c = text[i];
    if (c == ',' && depth == 0) return i;
    if (std::string_view("<([{").find(c) != std::string_view::npos) ++depth;
    if (std::string_view(">)]}").find(c) != std::string_view::npos) depth = std::max(0, depth - 1);
  }
  return std::string_view::npos;
}

std::vector<std::string> split_at(std::string_view option, std::string_view text,
                                  std::size_t (*next_comma)(std::string_view)) {
  std::vector<std::string> parts;
  for (;;) {
    std::size_t comma = next_comma(text);
    std::string_view part = text.substr(0, comma);
    if (part.empty()) {
      throw UsageError(fmt::format(
          "{} has an empty entry; separate entries by single commas, as in a,b", option));
    }
    parts.emplace_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<std::string> split_list(std::string_view option, std::string_view text) {
  return split_at(option, text, [](std::string_view rest) { return rest.find(','); });
}

std::vector<std::string> split_names(std::string_view option, std::string_view text) {
  return split_at(option, text, comma_between_names);
}

std::pair<std::string, std::string> parse_setting(std::string_view option, std::string_view text) {
  std::size_t equals = text.find('=');
  std::string name(text.substr(0, equals));
  bool is_name = equals != std::string_view::npos && !name.empty();
  for (char& c : name) {
    if (c == '-') c = '_';
    is_name = is_name && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  if (!is_name) {
    throw UsageError(fmt::format("{} is '{}'; give name=value, as in checks=full", option, text));
  }
  if (!name.starts_with("STRATA_")) name.insert(0, "STRATA_");
  return {name, std::string(text.substr(equals + 1))};
}

int parse_signal(std::string_view option, const std::string& text) {
  const int signal = signal_named(text);
  if (signal == 0) {
    throw UsageError(
        fmt::format("{0}: '{1}' is not a signal; name one, as in {0} USR2", option, text));
  }
  // The signals between the standard and the real-time ones belong to the C library.
  if (signal == SIGKILL || signal == SIGSTOP || (signal >= 32 && signal < SIGRTMIN)) {
    throw UsageError(
        fmt::format("{0}: no program can handle {1}; name another, as in {0} USR2", option, text));
  }
  if (is_of_fault(signal)) {
    throw UsageError(
        fmt::format("{0}: {1} cannot be used: it is that of a fault; name another, as in {0} USR2",
                    option, text));
  }
  return signal;
}

}  // namespace strata::cli
