#pragma once

#include <atomic>
#include <string_view>

#include "base/text_writer.h"

namespace strata {

// relaxed: a thread that sees it late waits for a lock, as it would have a moment before.
extern constinit std::atomic<bool> g_has_died_with_locks;

/// Writes "strata: <sentence>" to standard error and aborts. Allocates nothing.
[[noreturn]] void fatal(std::string_view sentence) noexcept;

/// Aborts without a sentence, for callers that have already written a report.
[[noreturn]] void die() noexcept;

/// Whether a thread died while it held a lock, which will never be released. Code that still
/// allocates, such as the program's handler of SIGABRT, must not wait for locks.
inline bool has_died_with_locks() noexcept {
  return g_has_died_with_locks.load(std::memory_order_relaxed);
}

/// fatal() about an address: "strata: <before><address><after>", as in fatal_pointer("double free
/// of ", p, ": it is already free").
[[noreturn]] void fatal_pointer(std::string_view before, const void* address,
                                std::string_view after) noexcept;

/// fatal() about a pointer that the program gave to a function: "invalid <action> of …", or "double
/// free of …" if a free was given what was freed before.
/// \param action     "free", "realloc", …
/// \param was_freed  known to be freed before; matters for "free" only
[[noreturn]] void fatal_call(std::string_view action, const void* pointer, std::string_view after,
                             bool was_freed = false) noexcept;

/// Adds to a sentence about an address what else is known of it: which heap it belongs to. Any lock
/// may be held.
using AboutAddress = void (*)(const void* address, TextWriter& sentence) noexcept;
/// From now on fatal_pointer(), fatal_about() and print_about() call `about`. Call once.
void set_about_address(AboutAddress about) noexcept;
/// Writes "strata: <sentence>" about the address, and what else is known of it, for a report of
/// several lines.
void print_about(const void* address, std::string_view sentence) noexcept;
/// fatal() with a sentence about the address.
[[noreturn]] void fatal_about(const void* address, std::string_view sentence) noexcept;

}  // namespace strata

/// Checks for our own mistakes, in builds without NDEBUG: dies, naming the condition and its place.
#ifdef NDEBUG
#define STRATA_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define STRATA_STRINGIFY_(x) #x
#define STRATA_STRINGIFY(x) STRATA_STRINGIFY_(x)
#define STRATA_DCHECK(condition)                                              \
  ((condition) ? static_cast<void>(0)                                         \
               : ::strata::fatal("internal error, please report: " #condition \
                                 " does not hold at " __FILE__ ":" STRATA_STRINGIFY(__LINE__)))
#endif

/// The same, always on: for check_invariants(), which only tests call.
#define STRATA_INVARIANT(condition, sentence) \
  ((condition) ? static_cast<void>(0) : ::strata::fatal("internal error, please report: " sentence))
