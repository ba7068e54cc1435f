// Statistics on a signal, with STRATA_STATS=signal: threads allocate as fast as they can while each
// of them gets signals. Each request is answered sooner or later, even if all threads block the
// signal, and a forked child answers, too. STRATA_STATS_SIGNAL names another signal than SIGUSR2,
// which is then left to the program.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"

namespace {

/// From now on standard error is a file.
/// \returns  the file's name
const char* catch_stderr() {
  static char name[] = "/tmp/strata-stats-signal-XXXXXX";
  const int fd = mkostemp(name, O_APPEND);  // as logs are opened: else it would be taken for data
  CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO, "no file for standard error");
  close(fd);
  return name;
}

std::size_t count_in_file(const char* name, const char* sentence) {
  FILE* file = fopen(name, "r");
  std::size_t count = 0;
  char line[512];
  while (fgets(line, sizeof line, file) != nullptr) count += strstr(line, sentence) != nullptr;
  fclose(file);
  return count;
}

/// Waits until the file contains the sentence `count` times. A minute is more than anything could
/// take.
bool comes_to_be(const char* name, const char* sentence, std::size_t count) {
  for (int i = 0; i < 6000; ++i) {
    if (count_in_file(name, sentence) >= count) return true;
    usleep(10'000);
  }
  return false;
}

constexpr const char* kFirstLine = "strata: statistics of process ";

void work(const std::atomic<bool>& done) {
  std::vector<void*> blocks(1000);
  for (std::size_t i = 0; !done.load(std::memory_order_relaxed); ++i) {
    void*& p = blocks[i * 7919 % blocks.size()];
    free(p);
    p = malloc(i * 31 % 6000);
  }
  for (void* p : blocks) free(p);
}

bool is_handled(int signal) {
  struct sigaction action;
  CHECK(sigaction(signal, nullptr, &action) == 0, "no such signal");
  return action.sa_handler != SIG_DFL;
}

}  // namespace

int main() {
  const char* const option = getenv("STRATA_STATS_SIGNAL");
  const int request = option != nullptr ? atoi(option) : SIGUSR2;
  CHECK(is_handled(request), "the signal is not awaited");
  CHECK(is_handled(SIGUSR2) == (request == SIGUSR2), "a signal that nobody named is taken");
  const char* name = catch_stderr();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(work, std::cref(done));
  for (int i = 0; i < 200; ++i) {
    pthread_kill(threads[static_cast<std::size_t>(i) % 3].native_handle(), request);
    usleep(500);
  }
  CHECK(comes_to_be(name, kFirstLine, 3), "signals under load are not answered");
  done = true;
  for (std::thread& thread : threads) thread.join();
  usleep(50'000);
  const std::size_t before = count_in_file(name, kFirstLine);
  raise(request);
  CHECK(comes_to_be(name, kFirstLine, before + 1), "a signal at rest is not answered");

  sigset_t signals, program_signals;
  sigemptyset(&signals);
  sigaddset(&signals, request);
  pthread_sigmask(SIG_BLOCK, &signals, &program_signals);
  kill(getpid(), request);
  CHECK(comes_to_be(name, kFirstLine, before + 2), "a signal that all threads block stays");
  pthread_sigmask(SIG_SETMASK, &program_signals, nullptr);

  const pid_t child = fork();
  if (child == 0) {
    // When the request comes, the child has no thread to answer it. The request is kept.
    raise(request);
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(malloc(3000));
    for (void* p : blocks) free(p);
    _exit(comes_to_be(name, kFirstLine, before + 3) ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child did not answer");
  CHECK(count_in_file(name, "has no thread to write them yet") == 1, "the child said nothing");
  unlink(name);
  return 0;
}
