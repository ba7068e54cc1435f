#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

/// \file  System calls without a function of the C library, for this layer alone. Every function of
///        another file that a library names is looked up when a program starts, called or not: some
///        700 instructions each. And these calls are no cancellation points, so no call of the
///        malloc ends half done, nor does its last sentence.
/// \returns  as the C library's functions do, errno included

namespace strata::os::system_call {

/// A sanitizer follows memory and signals through the C library's functions.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsFollowed = true;
#else
inline constexpr bool kIsFollowed = false;
#endif

/// Memory without a file.
inline void* map(void* at, std::size_t bytes, int protection, int flags) noexcept {
  if constexpr (kIsFollowed) return mmap(at, bytes, protection, flags, -1, 0);
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, at, bytes, long{protection}, long{flags}, -1L, 0L));
}
inline int unmap(void* at, std::size_t bytes) noexcept {
  if constexpr (kIsFollowed) return munmap(at, bytes);
  return static_cast<int>(syscall(SYS_munmap, at, bytes));
}
inline void* remap(void* at, std::size_t old_bytes, std::size_t new_bytes, int flags) noexcept {
  if constexpr (kIsFollowed) return mremap(at, old_bytes, new_bytes, flags);
  return reinterpret_cast<void*>(syscall(SYS_mremap, at, old_bytes, new_bytes, long{flags}));
}
/// Moves what is at `at` to `place`, where it replaces everything.
inline void* remap_to(void* at, std::size_t old_bytes, std::size_t new_bytes,
                      void* place) noexcept {
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED;
  if constexpr (kIsFollowed) return mremap(at, old_bytes, new_bytes, kFlags, place);
  return reinterpret_cast<void*>(
      syscall(SYS_mremap, at, old_bytes, new_bytes, long{kFlags}, place));
}
inline int protect(void* at, std::size_t bytes, int protection) noexcept {
  if constexpr (kIsFollowed) return mprotect(at, bytes, protection);
  return static_cast<int>(syscall(SYS_mprotect, at, bytes, long{protection}));
}
inline int advise(void* at, std::size_t bytes, int advice) noexcept {
  if constexpr (kIsFollowed) return madvise(at, bytes, advice);
  return static_cast<int>(syscall(SYS_madvise, at, bytes, long{advice}));
}

inline int control_process(int operation, const unsigned long (&arguments)[4]) noexcept {
  return static_cast<int>(
      syscall(SYS_prctl, long{operation}, arguments[0], arguments[1], arguments[2], arguments[3]));
}

/// Advice on several ranges of this process at once.
/// \returns  how many bytes were advised, from the first range on; -1 if none was
inline ssize_t advise_each(const iovec* ranges, std::size_t count, int advice) noexcept {
  constexpr long kProcessMadvise = 440;  // on every architecture; older headers have no name for it
  constexpr int kThisThread = -10000;    // PIDFD_SELF_THREAD; older kernels refuse it
  return syscall(kProcessMadvise, kThisThread, ranges, count, long{advice}, 0L);
}
/// Whether a filter decides which system calls this thread may make: it may end the process for one
/// that it does not know. Even for this one, which nearly all know (docs/operations.md).
inline bool are_filtered() noexcept {
  return syscall(SYS_prctl, PR_GET_SECCOMP, 0L, 0L, 0L, 0L) != 0;
}

inline int open(const char* path, int flags, unsigned mode = 0) noexcept {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
inline int close(int file) noexcept { return static_cast<int>(syscall(SYS_close, file)); }
inline ssize_t read(int file, void* out, std::size_t bytes) noexcept {
  return syscall(SYS_read, file, out, bytes);
}
inline ssize_t read_at(int file, void* out, std::size_t bytes, off_t offset) noexcept {
  return syscall(SYS_pread64, file, out, bytes, offset);
}
inline ssize_t write(int file, const void* data, std::size_t bytes) noexcept {
  return syscall(SYS_write, file, data, bytes);
}
inline int control(int file, int command, long argument = 0) noexcept {
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}
/// The file at the path itself; does not follow a symbolic link.
inline int look_at(const char* path, struct stat& out) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, &out, AT_SYMLINK_NOFOLLOW));
}
inline int look_at(int file, struct stat& out) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, file, "", &out, AT_EMPTY_PATH));
}
inline int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}
inline int remove(const char* path) noexcept {
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
/// Reads a clock. The C library's function may be another file's, which has a time of its own, and
/// allocates.
inline int read_clock(int clock, timespec& out) noexcept {
  return static_cast<int>(syscall(SYS_clock_gettime, clock, &out));
}
inline int process_id() noexcept { return static_cast<int>(syscall(SYS_getpid)); }

/// The processors that a thread may run on, a bit for each. Room for 8192, the most that Linux can
/// be built for.
struct Processors {
  long bytes = 0;  ///< valid bytes; not positive if the system said nothing
  unsigned long words[8192 / (8 * sizeof(unsigned long))];

  unsigned count() const noexcept {
    const auto known = static_cast<std::size_t>(std::max(bytes, 0L)) / sizeof *words;
    int n = 0;
    for (std::size_t i = 0; i < known; ++i) n += std::popcount(words[i]);
    return static_cast<unsigned>(n);
  }
};
/// \param thread  0: the calling one
inline void processors_of(int thread, Processors& out) noexcept {
  out.bytes = syscall(SYS_sched_getaffinity, thread, sizeof out.words, out.words);
}
/// Restricts the calling thread to these.
inline void run_on(const Processors& processors) noexcept {
  syscall(SYS_sched_setaffinity, 0, processors.bytes, processors.words);
}
inline int read_limit(int resource, rlimit& out) noexcept {
  return static_cast<int>(syscall(SYS_prlimit64, 0, resource, nullptr, &out));
}

/// Signals as the kernel has them: bit n - 1 is signal n.
using Signals = std::uint64_t;
constexpr Signals only(int signal) noexcept { return Signals{1} << (signal - 1); }
/// All but those that the C library keeps for itself: glibc's SIGRTMIN is 34, musl's 35.
#ifdef __GLIBC__
inline constexpr Signals kAllSignals = ~(only(32) | only(33));
#else
inline constexpr Signals kAllSignals = ~(only(32) | only(33) | only(34));
#endif

/// Whether a file accepts bytes within this time, during which no signal is handled.
inline bool wait_until_writable(int file, int milliseconds) noexcept {
  pollfd asked{file, POLLOUT, 0};
  timespec most{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return syscall(SYS_ppoll, &asked, 1UL, &most, &kAllSignals, sizeof kAllSignals) > 0;
}

/// \param how  SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK
/// \returns    the signals that this thread blocked before
inline Signals block_signals(int how, Signals signals) noexcept {
  Signals before = 0;
  syscall(SYS_rt_sigprocmask, how, &signals, &before, sizeof signals);
  return before;
}
inline Signals pending_signals() noexcept {
  Signals pending = 0;
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  return pending;
}

}  // namespace strata::os::system_call
