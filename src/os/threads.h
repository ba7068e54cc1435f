#pragma once

#include <cstdint>

/// \file  Threads: their IDs, and a value per thread that ends with it.

namespace strata::os {

/// Whether this is the process's only thread. False if the C library does not say.
bool is_single_threaded() noexcept;
/// Where the C library notes it: 0 from before the second thread begins; nullptr if nowhere.
const char* single_threaded_note() noexcept;

/// The calling thread's ID, as /proc and debuggers show it.
/// \cost  one system call.
std::uint32_t thread_id() noexcept;

/// Makes every other thread of the process pass a full memory barrier before this returns: what it
/// did before is visible to us, and what it does after sees what we did.
/// \returns  False if the kernel cannot.
/// \cost     an interrupt of each processor that runs one of the threads; microseconds
/// \source   membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED
bool barrier_in_all_threads() noexcept;

/// Whether a function that returns to `caller` may start a thread, although the C library may call
/// it while it holds a lock: glibc frees what an ended thread had under the lock of its stacks, for
/// which the start of a thread waits. A lock's holder has to come back to release it, so then the
/// caller is the C library itself, or its loader.
/// \returns  False, too, if nobody knows whose code it is: in static executables, and before glibc
///           2.35. True while no other thread was ever started.
/// \source   glibc, nptl/nptl-stack.c and nptl/allocatestack.c; it never allocates under that lock
bool may_start_thread(const void* caller) noexcept;
/// Whether a function that returns to `caller` was called by the C library or its loader.
/// \returns  False, too, if nobody knows, as above.
bool is_c_library(const void* caller) noexcept;

/// A value per thread: `on_exit(value)` runs when a thread ends whose value is not nullptr, and
/// again if it sets one while exit hooks run (the system stops after a few rounds).
/// \returns  False if the system has no key left.
bool create_thread_key(unsigned& key, void (*on_exit)(void*)) noexcept;
/// May allocate through the process's malloc, once per thread, if the process has more than 32
/// keys.
/// \returns  False if there was no memory for that.
bool set_thread_value(unsigned key, void* value) noexcept;

}  // namespace strata::os
