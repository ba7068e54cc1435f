#include "input/signal_name.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "input/usage_error.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

std::string signal_refusal(const char* text) {
  return refused_with<UsageError>([&] { parse_signal("--on-signal", text); });
}

TEST(SignalName, IsANameWithOrWithoutSigOrANumber) {
  EXPECT_EQ(parse_signal("--on-signal", "USR2"), SIGUSR2);
  EXPECT_EQ(parse_signal("--on-signal", "SIGUSR2"), SIGUSR2);
  EXPECT_EQ(parse_signal("--on-signal", std::to_string(SIGUSR2)), SIGUSR2);
  EXPECT_EQ(parse_signal("--on-signal", std::to_string(SIGRTMAX)), SIGRTMAX);
}

TEST(SignalName, IsRefusedWhereNoProgramCouldHandleItAndGoOn) {
  for (const char* bad : {"", "NO", "usr2", "0", "-1", "65", "USR2 "}) {
    EXPECT_EQ(signal_refusal(bad), std::string("--on-signal: '") + bad +
                                       "' is not a signal; name one, as in --on-signal USR2");
  }
  for (const char* bad : {"KILL", "SIGSTOP", "9", "32"}) {
    EXPECT_EQ(signal_refusal(bad), std::string("--on-signal: no program can handle ") + bad +
                                       "; name another, as in --on-signal USR2");
  }
  for (const char* bad : {"SEGV", "SIGBUS", "4"}) {
    EXPECT_EQ(signal_refusal(bad),
              std::string("--on-signal: ") + bad +
                  " cannot be used: it is that of a fault; name another, as in --on-signal USR2");
  }
}

}  // namespace
}  // namespace strata::cli
