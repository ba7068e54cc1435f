#include "input/signal_name.h"

#include <fmt/format.h>
#include <string.h>

#include <csignal>

#include "input/usage_error.h"
#include "shared/words.h"

namespace strata::cli {
namespace {

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
