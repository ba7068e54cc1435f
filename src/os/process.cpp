#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "os/output.h"
#include "os/page_source.h"

extern "C" char** environ;

namespace strata::os {
namespace {

pthread_key_t g_exit_key;
bool g_has_exit_key = false;

long futex(const std::uint32_t* word, int operation, std::uint32_t value,
           const timespec* timeout) noexcept {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

void wake(const std::uint32_t* word, std::uint32_t count) noexcept {
  const int saved = errno;
  futex(word, FUTEX_WAKE, count, nullptr);
  errno = saved;
}

}  // namespace

std::uint64_t monotonic_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::size_t resident_bytes() noexcept {
  const CancellationHeld not_now;
  const int saved = errno;
  std::size_t pages = 0;
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    char text[128];
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n > 0) {
      text[n] = '\0';
      // The second number is the resident set, in OS pages.
      const char* at = std::strchr(text, ' ');
      for (at = at != nullptr ? at + 1 : text; *at >= '0' && *at <= '9'; ++at) {
        pages = pages * 10 + static_cast<std::size_t>(*at - '0');
      }
    }
  }
  errno = saved;
  return pages * page_bytes();
}

unsigned processor_count() noexcept {
  const int saved = errno;
  // Room for 8192 processors, the most that Linux can be built for: one cpu_set_t holds 1024, and
  // the call fails where the kernel counts more than the set can name.
  cpu_set_t sets[8];
  const bool known = sched_getaffinity(0, sizeof sets, sets) == 0;
  errno = saved;
  const int n = known ? CPU_COUNT_S(sizeof sets, sets) : 0;
  return n > 0 ? static_cast<unsigned>(n) : 1;
}

std::size_t address_space_limit_bytes() noexcept {
  const int saved = errno;
  rlimit limit;
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  errno = saved;
  return is_limited ? static_cast<std::size_t>(limit.rlim_cur) : SIZE_MAX;
}

std::uint32_t thread_id() noexcept { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

std::uint64_t random_seed() noexcept {
  std::uint64_t words[2] = {0x9e3779b97f4a7c15u, 0};
  if (const auto* random = reinterpret_cast<const void*>(getauxval(AT_RANDOM))) {
    std::memcpy(words, random, sizeof words);
  }
  return words[0] ^ (words[1] * 0x9e3779b97f4a7c15u);
}

void write_stderr(std::string_view text) noexcept {
  const int saved = errno;
  write_all(STDERR_FILENO, text);
  errno = saved;
}

int open_to_append(const char* path) noexcept {
  const CancellationHeld not_now;
  const int saved = errno;
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  errno = saved;
  return fd;
}

bool write_file(int file, std::string_view text) noexcept {
  const int saved = errno;
  const bool is_written = write_all(file, text) == 0;
  errno = saved;
  return is_written;
}

void close_file(int file) noexcept {
  const CancellationHeld not_now;
  const int saved = errno;
  close(file);
  errno = saved;
}

void abort_process() noexcept { abort(); }

const char* environment_variable(const char* name) noexcept {
  // Not getenv: this runs before the C library may be ready and must not lock.
  const std::size_t length = std::strlen(name);
  for (std::size_t i = 0; const char* entry = environment_entry(i); ++i) {
    if (std::strncmp(entry, name, length) == 0 && entry[length] == '=') return entry + length + 1;
  }
  return nullptr;
}

const char* environment_entry(std::size_t index) noexcept {
  return environ != nullptr ? environ[index] : nullptr;
}

bool has_foreign_rights() noexcept { return getauxval(AT_SECURE) != 0; }

void set_errno_no_memory() noexcept { errno = ENOMEM; }
void set_errno_invalid() noexcept { errno = EINVAL; }
int current_errno() noexcept { return errno; }
void set_errno(int error) noexcept { errno = error; }
int error_no_memory() noexcept { return ENOMEM; }
int error_invalid() noexcept { return EINVAL; }

void wait_on(const std::uint32_t* word, std::uint32_t expected, std::uint64_t timeout_ns) noexcept {
  const int saved = errno;
  timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000u),
                   static_cast<long>(timeout_ns % 1'000'000'000u)};
  futex(word, FUTEX_WAIT, expected, timeout_ns != 0 ? &timeout : nullptr);
  errno = saved;
}

void wake_one(const std::uint32_t* word) noexcept { wake(word, 1); }
void wake_all(const std::uint32_t* word) noexcept { wake(word, INT_MAX); }

bool barrier_in_all_threads() noexcept {
  const int saved = errno;
  bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  if (!done && errno == EPERM) {  // the first time: the process has to say that it is interested
    done = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  }
  errno = saved;
  return done;
}

bool start_thread(void* (*body)(void*), void* argument) noexcept {
  const int saved = errno;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  bool started = false;
  if (pthread_attr_init(&attributes) == 0) {
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    started = pthread_create(&thread, &attributes, body, argument) == 0;
    pthread_attr_destroy(&attributes);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = saved;
  return started;
}

bool register_thread_exit(void (*on_exit)(void*)) noexcept {
  g_has_exit_key = pthread_key_create(&g_exit_key, on_exit) == 0;
  return g_has_exit_key;
}

bool set_thread_exit_value(void* value) noexcept {
  return g_has_exit_key && pthread_setspecific(g_exit_key, value) == 0;
}

bool create_thread_key(unsigned& key, void (*on_exit)(void*)) noexcept {
  static_assert(sizeof(pthread_key_t) == sizeof key, "a key of the C library is an unsigned");
  return pthread_key_create(&key, on_exit) == 0;
}

bool set_thread_value(unsigned key, void* value) noexcept {
  return pthread_setspecific(key, value) == 0;
}

bool register_fork_handlers(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
  return pthread_atfork(before, in_parent, in_child) == 0;
}

bool handle_signal(int signal, void (*handler)(int)) noexcept {
  const int saved = errno;
  struct sigaction now;
  struct sigaction ours {};
  ours.sa_handler = handler;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  const bool is_free = sigaction(signal, nullptr, &now) == 0 &&
                       ((now.sa_flags & SA_SIGINFO) == 0 &&
                        (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN));
  const bool is_ours = is_free && sigaction(signal, &ours, nullptr) == 0;
  errno = saved;
  return is_ours;
}

bool register_exit_handler(void (*handler)()) noexcept { return atexit(handler) == 0; }

}  // namespace strata::os
