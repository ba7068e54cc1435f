#include "os/output.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

namespace strata::os {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close_reader();
    close(ends[1]);
  }
  void close_reader() {
    if (ends[0] >= 0) close(ends[0]);
    ends[0] = -1;
  }
  int ends[2];
};

bool is_pipe_signal_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

/// SIGPIPE is blocked in this thread.
struct Blocked {
  Blocked() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &before);
  }
  ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  sigset_t before;
};

TEST(WriteAll, IsOneTextToTheReaderWhateverThePipeHolds) {
  Pipe pipe;
  const std::string text(300'000, 'x');
  std::string got;
  std::thread reader([&] {
    char part[10'000];
    while (got.size() < text.size()) {
      const ssize_t count = read(pipe.ends[0], part, sizeof part);
      ASSERT_GT(count, 0);
      got.append(part, static_cast<std::size_t>(count));
    }
  });
  EXPECT_EQ(write_all(pipe.ends[1], text), 0);
  reader.join();
  EXPECT_EQ(got, text);
}

TEST(WriteAll, APipeThatNobodyReadsIsAnErrorAndNoSignal) {
  Pipe pipe;
  pipe.close_reader();
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);  // ends the process if the signal comes
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGPIPE));
  Blocked blocked;
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_FALSE(is_pipe_signal_pending());
}

TEST(WriteAll, ASignalThatTheProgramHasWaitingStays) {
  Pipe pipe;
  pipe.close_reader();
  Blocked blocked;
  pthread_kill(pthread_self(), SIGPIPE);
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_TRUE(is_pipe_signal_pending());
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  int number = 0;
  EXPECT_EQ(sigwait(&set, &number), 0);
}

TEST(WriteAll, SaysWhyItCannot) { EXPECT_EQ(write_all(-1, "text"), EBADF); }

TEST(Output, WritesAllOfATextToStandardError) {
  const std::string text(20'000, 'x');
  ::testing::internal::CaptureStderr();
  write_stderr(text);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), text);
}

}  // namespace
}  // namespace strata::os
