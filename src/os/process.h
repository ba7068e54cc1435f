#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// \file  What else we ask of the kernel and the C library: time, streams, threads, the
/// environment.

namespace strata::os {

/// Nanoseconds since an arbitrary start; never goes back.
/// \cost  one vDSO call.
std::uint64_t monotonic_ns() noexcept;

/// Memory of this process that is in RAM, in bytes, as /proc/self/statm has it; 0 if unreadable.
/// \cost  Three system calls; no allocation.
std::size_t resident_bytes() noexcept;

/// Processors this process may run on; at least 1.
/// \cost  one system call.
unsigned processor_count() noexcept;

/// The most address space this process may have (RLIMIT_AS); SIZE_MAX if that is not limited.
/// \cost  one system call.
std::size_t address_space_limit_bytes() noexcept;

/// The calling thread's number, as /proc and debuggers show it.
/// \cost  one system call.
std::uint32_t thread_id() noexcept;

/// 16 bytes of the kernel's start-up randomness reduced to one word: differs from run to run.
std::uint64_t random_seed() noexcept;

/// Writes all of it to standard error or gives up; never allocates, async-signal-safe.
void write_stderr(std::string_view text) noexcept;

/// A file descriptor of a file that exists or is created, for writing at its end; negative if it
/// cannot be opened. Closed across exec.
int open_to_append(const char* path) noexcept;
bool write_file(int file, std::string_view text) noexcept;  ///< all of it, or gives up: false
void close_file(int file) noexcept;

[[noreturn]] void abort_process() noexcept;

/// The value of NAME in the environment, or nullptr. The pointer stays valid until setenv.
const char* environment_variable(const char* name) noexcept;

/// Entry `index` of the environment as "NAME=value", nullptr behind the last.
const char* environment_entry(std::size_t index) noexcept;

/// Whether the program runs with rights that whoever started it lacks (set-user-ID and the like):
/// then the environment is not to be trusted.
/// \cost  a look at what the kernel left at the start
bool has_foreign_rights() noexcept;

/// Sets the calling thread's errno to ENOMEM or EINVAL: the C API's way to say why.
void set_errno_no_memory() noexcept;
void set_errno_invalid() noexcept;
int current_errno() noexcept;  ///< for who tries, fails, and answers otherwise
void set_errno(int error) noexcept;
int error_no_memory() noexcept;  ///< the value of ENOMEM, for posix_memalign
int error_invalid() noexcept;    ///< the value of EINVAL

/// A hint to the processor inside a spin loop.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Sleeps while *word == expected, until woken, or until timeout_ns passes (0 waits for ever).
/// Returns early without reason at times: callers loop. All three leave errno as it was.
void wait_on(const std::uint32_t* word, std::uint32_t expected,
             std::uint64_t timeout_ns = 0) noexcept;
void wake_one(const std::uint32_t* word) noexcept;
void wake_all(const std::uint32_t* word) noexcept;

/// Makes every other thread of the process pass a full memory barrier before this returns: what it
/// did before is visible to us, and what it does after sees what we did.
/// \returns  False if the kernel cannot.
/// \cost     an interrupt of each processor that runs one of the threads; microseconds
/// \source   membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED
bool barrier_in_all_threads() noexcept;

/// Starts a detached thread with every signal blocked. May allocate through the process's malloc.
/// \returns  False if the system refuses.
bool start_thread(void* (*body)(void*), void* argument) noexcept;

/// Calls `on_exit(value)` when a thread that called set_thread_exit_value(value) ends.
/// One registration per process, before a second thread could set a value.
/// \returns  False if the system has no key left.
bool register_thread_exit(void (*on_exit)(void*)) noexcept;
/// May allocate through the process's malloc, once per thread, where the process has more than 32
/// keys.
/// \returns  False if there was no memory for that, or nothing is registered.
bool set_thread_exit_value(void* value) noexcept;

/// A value per thread under a key of the caller's own, for those who need more than the one above:
/// `on_exit(value)` runs when a thread ends whose value is not nullptr, and again if it sets one
/// while exit hooks run (the system stops after a few rounds).
/// \returns  False if the system has no key left.
bool create_thread_key(unsigned& key, void (*on_exit)(void*)) noexcept;
/// \returns  False if there was no memory for that; it may need some as set_thread_exit_value().
bool set_thread_value(unsigned key, void* value) noexcept;

/// Runs the three around every fork().
/// \returns  False if the C library has no room.
bool register_fork_handlers(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept;

/// Calls `handler` when the signal arrives, on the signal stack if there is one; interrupted system
/// calls go on.
/// \returns  False if the system refuses, or something else handles the signal already.
bool handle_signal(int signal, void (*handler)(int)) noexcept;

/// Runs `handler` at normal exit.
/// \returns  False if the C library has no room.
bool register_exit_handler(void (*handler)()) noexcept;

}  // namespace strata::os
