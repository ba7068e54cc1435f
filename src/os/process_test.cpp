#include "os/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "os/child_in_test.h"
#include "os/output.h"

namespace strata::os {
namespace {

TEST(Process, ASignalIsHandledUnlessSomebodyElseHandlesItAlready) {
  static int arrived;
  arrived = 0;
  const auto count = [](int) { ++arrived; };
  ASSERT_TRUE(handle_signal(SIGUSR2, count));
  raise(SIGUSR2);
  EXPECT_EQ(arrived, 1);
  EXPECT_FALSE(handle_signal(SIGUSR2, [](int) {})) << "taken";
  raise(SIGUSR2);
  EXPECT_EQ(arrived, 2);
  EXPECT_FALSE(handle_signal(SIGKILL, count));
  EXPECT_FALSE(handle_signal(4711, count));
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, 32, 33}) {
    EXPECT_FALSE(handle_signal(fault, count)) << fault;
  }
  signal(SIGUSR2, SIG_DFL);
}

/// For ever, as the handlers that write it.
std::string& fork_trace() {
  static auto* const trace = new std::string;
  return *trace;
}

TEST(Process, RunsTheForkHandlersOnTheirSides) {
  static const bool registered =
      register_fork_handlers([] { fork_trace() += "before "; }, [] { fork_trace() += "parent"; },
                             [] { fork_trace() += "child"; });
  ASSERT_TRUE(registered);
  fork_trace().clear();
  EXPECT_EQ(status_in_child([] { return fork_trace() == "before child" ? 0 : 1; }), 0);
  EXPECT_EQ(fork_trace(), "before parent");
}

#ifdef __GLIBC__
/// What exit() calls for each file, when the file's own handlers have run.
extern "C" void __cxa_finalize(void* file);
extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;

/// As another thread may, in the middle of a fork() that began before.
TEST(Process, RunsTheForkHandlersWhileTheProgramEnds) {
  static int calls;
  const int status = status_in_child([] {
    if (!register_fork_handlers([] { ++calls; }, [] { ++calls; }, [] { ++calls; })) return 2;
    __cxa_finalize(__dso_handle);
    const bool is_called_in_child = status_in_child([] { return calls == 2 ? 0 : 1; }) == 0;
    return is_called_in_child && calls == 2 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}
#endif

void leave_with_a_handler() {
  if (!register_exit_handler([] { write_stderr("the handler ran"); })) _exit(3);
  exit(0);
}

TEST(ProcessDeathTest, RunsTheExitHandlerAtNormalExit) {
  EXPECT_EXIT(leave_with_a_handler(), ::testing::ExitedWithCode(0), "the handler ran");
}

TEST(ProcessDeathTest, AbortsTheProcess) {
  EXPECT_EXIT(abort_process(), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace strata::os
