#include "process/run_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "process/output_capture.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Whether a process runs. A zombie does not: not every container's first process reaps orphans.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

/// Whether the process ends soon.
bool is_gone(pid_t process) {
  for (int i = 0; i < 1000; ++i) {
    if (!runs(process)) return true;
    ::usleep(10'000);
  }
  return false;
}

class RunProcess : public ::testing::Test {
 protected:
  ProcessResult shell(const std::string& script, double timeout_s = 60) {
    ProcessPlan plan;
    plan.program = "/bin/sh";
    plan.arguments = {"sh", "-c", script};
    plan.environment = environment_;
    plan.output_fd = output_.fd();
    plan.timeout_s = timeout_s;
    return run_process(plan, signals_);
  }

  /// Programs that a shell starts in the background ignore SIGINT, and the watch respects that.
  struct DefaultInterrupt {
    ~DefaultInterrupt() { std::signal(SIGINT, before); }
    decltype(SIG_DFL) before = std::signal(SIGINT, SIG_DFL);
  } default_interrupt_;
  Environment environment_ = Environment::inherited();
  SignalWatch signals_;
  OutputCapture output_;
};

TEST_F(RunProcess, TellsExitStatusFromSignal) {
  ProcessResult exited = shell("exit 139");
  EXPECT_EQ(exited.end, ProcessResult::End::kExited);
  EXPECT_EQ(exited.code, 139);
  EXPECT_FALSE(exited.succeeded());
  ProcessResult killed = shell("kill -SEGV $$");
  EXPECT_EQ(killed.end, ProcessResult::End::kKilled);
  EXPECT_EQ(killed.code, SIGSEGV);
  EXPECT_EQ(describe_end(killed, 0), "killed by SIGSEGV");
  EXPECT_TRUE(shell("true").succeeded());
}

TEST_F(RunProcess, ACommandMaySignalItsWholeGroup) {
  EXPECT_TRUE(
      shell("trap '' USR1 TERM TSTP TTIN; for s in USR1 TERM TSTP TTIN; do kill -$s 0; done")
          .succeeded());
  EXPECT_EQ(describe_end(shell("kill -USR1 0; exit 0"), 0), "killed by SIGUSR1");
  const ProcessResult killed = shell("kill -KILL 0; exit 0");
  EXPECT_EQ(killed.end, ProcessResult::End::kKilled);
  EXPECT_THAT(describe_end(killed, 0),
              StartsWith("killed by SIGKILL, with its process group (perhaps by the kernel, "));
}

TEST_F(RunProcess, CapturesBothStreamsInOrderAndKeepsTheLastLines) {
  shell("echo one; echo two >&2; echo three");
  EXPECT_EQ(output_.head(), "one\ntwo\nthree\n");
  EXPECT_EQ(output_.tail(2), "two\nthree");
  EXPECT_EQ(output_.tail(9), "one\ntwo\nthree");
  EXPECT_EQ(output_.tail(9, 8), "three");
  output_.clear();
  EXPECT_EQ(output_.head(), "");
  EXPECT_EQ(output_.tail(2), "");
}

TEST_F(RunProcess, IsWatchedAsOftenAsTheWatcherAsks) {
  int looks = 0;
  ProcessPlan plan;
  plan.program = "/bin/sleep";
  plan.arguments = {"sleep", "0.3"};
  plan.environment = environment_;
  plan.watch = [&] {
    ++looks;
    return looks < 4 ? 0.001 : 60.0;
  };
  EXPECT_TRUE(run_process(plan, signals_).succeeded());
  EXPECT_EQ(looks, 4);
}

TEST_F(RunProcess, AWatchedProcessStillTimesOut) {
  ProcessPlan plan;
  plan.program = "/bin/sleep";
  plan.arguments = {"sleep", "60"};
  plan.environment = environment_;
  plan.timeout_s = 0.2;
  plan.watch = [] { return 0.01; };
  EXPECT_EQ(run_process(plan, signals_).end, ProcessResult::End::kTimedOut);
}

TEST_F(RunProcess, HandsDownTheFilesItIsToldTo) {
  OutputCapture file;
  ProcessPlan plan;
  plan.program = "/bin/sh";
  plan.arguments = {"sh", "-c", "echo here >&" + std::to_string(file.fd())};
  plan.environment = environment_;
  plan.output_fd = output_.fd();
  EXPECT_FALSE(run_process(plan, signals_).succeeded());
  plan.inherited_fds = {file.fd()};
  EXPECT_TRUE(run_process(plan, signals_).succeeded());
  EXPECT_EQ(file.head(), "here\n");
}

TEST_F(RunProcess, ChangesTheEnvironmentOfTheChildAlone) {
  environment_.set("STRATA_TEST_VALUE", "a b=c");
  shell("echo \"$STRATA_TEST_VALUE\"");
  EXPECT_EQ(output_.head(), "a b=c\n");
  EXPECT_EQ(std::getenv("STRATA_TEST_VALUE"), nullptr);
}

TEST_F(RunProcess, NoArgumentHoldsTheEnvironment) {
  // Everyone on the machine can read the arguments of every process.
  environment_.set("STRATA_TEST_SECRET", "hush-hush");
  shell("cat /proc/$PPID/cmdline /proc/self/cmdline; ls -l /proc/self/fd; env");
  const std::string told = output_.head();
  EXPECT_THAT(told, HasSubstr("strata-launch"));
  EXPECT_EQ(told.find("hush-hush"), told.rfind("hush-hush"));
  EXPECT_THAT(told, HasSubstr("STRATA_TEST_SECRET=hush-hush\n"));
  EXPECT_THAT(told, Not(HasSubstr("memfd")));
}

TEST_F(RunProcess, AnEmptyEnvironmentIsEmpty) {
  ProcessPlan plan;
  plan.program = "/usr/bin/env";
  plan.arguments = {"env"};
  plan.output_fd = output_.fd();
  EXPECT_TRUE(run_process(plan, signals_).succeeded());
  EXPECT_EQ(output_.head(), "");
}

TEST_F(RunProcess, SaysThatArgumentsOrEnvironmentAreTooLong) {
  const std::string word(100'000, 'x');
  const std::string sentence = "could not be started (Argument list too long)";
  ProcessPlan plan;
  plan.program = "/bin/true";
  plan.arguments.assign(100, word);
  EXPECT_EQ(describe_end(run_process(plan, signals_), 0), sentence);
  plan.arguments = {"true"};
  for (int i = 0; i < 100; ++i) plan.environment.set("LONG_" + std::to_string(i), word);
  EXPECT_EQ(describe_end(run_process(plan, signals_), 0), sentence);
}

TEST_F(RunProcess, EndsWhatTheCommandLeftInTheBackground) {
  EXPECT_TRUE(shell("sleep 1000 & echo $!").succeeded());
  EXPECT_TRUE(is_gone(std::stoi(output_.head())));
}

TEST_F(RunProcess, EndsWhatRunsTooLongWithAllItsDescendants) {
  // On a busy machine the shell may need more than a second before it writes.
  for (double timeout_s = 1; output_.head().empty() && timeout_s < 100; timeout_s *= 4) {
    // The sleeper ignores the signal that ends the shell.
    ProcessResult result =
        shell("trap '' TERM; sleep 1000 & echo $!; trap - TERM; wait", timeout_s);
    EXPECT_EQ(result.end, ProcessResult::End::kTimedOut);
  }
  EXPECT_TRUE(is_gone(std::stoi(output_.head())));
}

TEST_F(RunProcess, KillsWhatIgnoresThePoliteRequest) {
  ProcessResult result = shell("trap '' TERM; while :; do sleep 0.1; done", 0.2);
  EXPECT_EQ(result.end, ProcessResult::End::kTimedOut);
  EXPECT_EQ(describe_end(result, 0.2), "still running after 0.2 s");
  EXPECT_FALSE(result.lost_its_group);
}

TEST_F(RunProcess, AnInterruptionEndsTheCommandAndIsRemembered) {
  ProcessResult result = shell("kill -INT " + std::to_string(::getpid()) + "; sleep 1000");
  EXPECT_EQ(result.end, ProcessResult::End::kInterrupted);
  EXPECT_EQ(signals_.interruption(), SIGINT);
}

TEST_F(RunProcess, StartsTheChildWithTheSignalsWeHad) {
  shell("grep SigBlk /proc/self/status");
  EXPECT_THAT(output_.head(), HasSubstr("0000000000000000"));
}

TEST_F(RunProcess, SaysWhyAProgramCouldNotStart) {
  ProcessPlan plan;
  plan.program = "/no/such/program";
  plan.arguments = {"program"};
  ProcessResult result = run_process(plan, signals_);
  EXPECT_EQ(result.end, ProcessResult::End::kNotStarted);
  EXPECT_EQ(describe_end(result, 0), "could not be started (No such file or directory)");
}

TEST_F(RunProcess, CountsTimeAndMemoryOfTheCommand) {
  ProcessResult result = shell("sleep 0.1");
  EXPECT_GE(result.elapsed_s, 0.1);
  EXPECT_LT(result.cpu_s, result.elapsed_s);
  EXPECT_GT(result.peak_rss_bytes, 0u);
  EXPECT_GT(result.minor_faults, 0u);
}

TEST_F(RunProcess, ThePeakOfAnEmptyProgramIsNotOurOwn) {
  // Makes this process large: a child that starts as its copy would be as large.
  std::vector<char> ballast(64 << 20, 'x');
  ASSERT_EQ(ballast[ballast.size() / 2], 'x');
  EXPECT_LT(shell("true").peak_rss_bytes, ballast.size() / 4);
}

}  // namespace
}  // namespace strata::cli
