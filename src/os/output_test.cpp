#include "os/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

namespace strata::os {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close_reader();
    if (ends[1] >= 0) close(ends[1]);
  }
  void close_reader() {
    if (ends[0] >= 0) close(ends[0]);
    ends[0] = -1;
  }
  int ends[2];
};

bool is_pending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal) == 1;
}

/// Blocks a signal in this thread, during its life.
struct Blocked {
  explicit Blocked(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
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
  Blocked blocked(SIGPIPE);
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_FALSE(is_pending(SIGPIPE));
}

TEST(WriteAll, ASignalThatTheProgramHasWaitingStays) {
  Pipe pipe;
  pipe.close_reader();
  Blocked blocked(SIGPIPE);
  pthread_kill(pthread_self(), SIGPIPE);
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_TRUE(is_pending(SIGPIPE));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  int number = 0;
  EXPECT_EQ(sigwait(&set, &number), 0);
}

TEST(WriteAll, AFileAtItsLimitIsAnErrorAndNoSignal) {
  char path[] = "/tmp/strata_output_XXXXXX";
  const int file = mkstemp(path);
  ASSERT_GE(file, 0);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limited = before;
  limited.rlim_cur = 4;
  setrlimit(RLIMIT_FSIZE, &limited);
  const int error = write_all(file, "more than that");  // ends the process if the signal comes
  bool stays_pending;
  {
    Blocked blocked(SIGXFSZ);
    EXPECT_EQ(write_all(file, "text"), EFBIG);
    EXPECT_FALSE(is_pending(SIGXFSZ));
    pthread_kill(pthread_self(), SIGXFSZ);
    EXPECT_EQ(write_all(file, "text"), EFBIG);
    stays_pending = is_pending(SIGXFSZ);
    signal(SIGXFSZ, SIG_IGN);  // takes the pending one away
    signal(SIGXFSZ, SIG_DFL);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error, EFBIG);
  EXPECT_TRUE(stays_pending);
  EXPECT_EQ(lseek(file, 0, SEEK_END), 4);
  close(file);
  unlink(path);
}

TEST(WriteAll, WaitsForTheReaderWhereWritesDoNotWait) {
  Pipe pipe;
  fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK);
  const std::string text(300'000, 'x');
  std::size_t got = 0;
  std::thread reader([&] {
    char part[10'000];
    for (ssize_t count; got < text.size() && (count = read(pipe.ends[0], part, sizeof part)) > 0;)
      got += static_cast<std::size_t>(count);
  });
  EXPECT_EQ(write_all(pipe.ends[1], text, 60'000), 0);
  close(std::exchange(pipe.ends[1], -1));
  reader.join();
  EXPECT_EQ(got, text.size());
}

TEST(WriteAll, DoesNotWaitForeverForAReaderThatTakesNothing) {
  Pipe pipe;
  fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK);
  EXPECT_EQ(write_all(pipe.ends[1], std::string(300'000, 'x'), 50), EAGAIN);
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
