// C's allocation functions. Each calls the next library's function of the same name and records the
// call.

#include <errno.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "os/page_source.h"
#include "recorder/calls.h"
#include "recorder/next.h"

using namespace strata::recorder;
using strata::trace::Operation;

namespace {

/// Records a call with an alignment and leaves it. The caller has entered it.
void* note_aligned(ThreadState& state, void* p, std::size_t alignment, std::size_t size,
                   std::uint32_t stack) noexcept {
  note(state, {Operation::kAligned, RecordKind::kCall, log2_of(alignment)}, p, size, stack);
  leave(state);
  return p;
}

void* refuse() noexcept {
  errno = ENOMEM;
  return nullptr;
}

/// Moves an object from the first memory to the next malloc's.
void* move_from_first(void* p, std::size_t bytes) noexcept {
  void* const moved = malloc(bytes);
  const std::size_t most = first_bytes_from(p);
  if (moved != nullptr) std::memcpy(moved, p, bytes < most ? bytes : most);
  return moved;
}

[[gnu::always_inline]] inline void* make(std::size_t bytes) noexcept {
  ThreadState& state = t_state;
  if (!enter(state)) return find_next() ? g_next.malloc(bytes) : allocate_first(bytes, 16);
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  void* const p = g_next.malloc(bytes);
  note(state, {Operation::kMalloc}, p, bytes, stack);
  leave(state);
  return p;
}

/// \returns  A newly allocated copy of the text; nullptr on failure.
[[gnu::always_inline]] inline char* copy(const char* text, std::size_t length) noexcept {
  auto* const p = static_cast<char*>(make(length + 1));
  if (p == nullptr) return nullptr;
  std::memcpy(p, text, length);
  p[length] = '\0';
  return p;
}

/// \param form  the next library's function; if it has none, free() is called
template <typename... Rest>
[[gnu::always_inline]] inline void give_back(void* p, void (*Next::*form)(void*, Rest...),
                                             Rest... rest) noexcept {
  if (p == nullptr || is_first_memory(p)) return;
  ThreadState& state = t_state;
  const bool is_noted = enter(state);
  if (is_noted) note(state, {Operation::kFree}, p, 0, 0);
  if (is_noted || find_next()) {
    const auto function = g_next.*form;
    function != nullptr ? function(p, rest...) : g_next.free(p);
  }
  if (is_noted) leave(state);
}

/// \param form  the next library's function
[[gnu::always_inline]] inline void* make_aligned(void* (*Next::*form)(std::size_t, std::size_t),
                                                 std::size_t alignment,
                                                 std::size_t bytes) noexcept {
  ThreadState& state = t_state;
  if (!find_next()) return allocate_first(bytes, alignment);
  const auto function = g_next.*form;
  if (function == nullptr) return refuse();
  if (!enter(state)) return function(alignment, bytes);
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  return note_aligned(state, function(alignment, bytes), alignment, bytes, stack);
}

/// \param form  the next library's function
[[gnu::always_inline]] inline void* make_pages(void* (*Next::*form)(std::size_t),
                                               std::size_t bytes) noexcept {
  ThreadState& state = t_state;
  if (!find_next() || g_next.*form == nullptr) return refuse();
  if (!enter(state)) return (g_next.*form)(bytes);
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  return note_aligned(state, (g_next.*form)(bytes), strata::os::page_bytes(), bytes, stack);
}

}  // namespace

STRATA_NAME void* malloc(std::size_t bytes) { return make(bytes); }

// The C library's versions call malloc internally. Allocators bring versions whose calls we would
// not see.
STRATA_NAME char* strdup(const char* text) { return copy(text, std::strlen(text)); }
STRATA_NAME char* strndup(const char* text, std::size_t most) {
  return copy(text, strnlen(text, most));
}

STRATA_NAME void free(void* p) { give_back(p, &Next::free); }

STRATA_NAME void* calloc(std::size_t count, std::size_t bytes) {
  ThreadState& state = t_state;
  if (!enter(state, /* in_calloc */ true)) {
    // The first memory is zero and never reused.
    return find_next() ? g_next.calloc(count, bytes) : allocate_first(count * bytes, 16);
  }
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  void* const p = g_next.calloc(count, bytes);
  std::size_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product)) product = SIZE_MAX;
  note(state, {Operation::kCalloc}, p, product, stack);
  leave(state);
  return p;
}

namespace {

/// \param reallocate  does the call; the stack is taken from its caller
template <typename Reallocate>
[[gnu::always_inline]] inline void* note_realloc(ThreadState& state, void* p, std::size_t bytes,
                                                 std::uint32_t stack,
                                                 Reallocate reallocate) noexcept {
  const bool is_noted = note(state, {Operation::kRealloc, RecordKind::kReallocBegin}, p, 0, 0);
  void* const q = reallocate();
  const bool is_freed = q == nullptr && bytes == 0 && p != nullptr;
  const Operation operation = is_freed ? Operation::kFree : Operation::kRealloc;
  if (is_noted) note(state, {operation, RecordKind::kReallocEnd}, q, bytes, stack);
  leave(state);
  return q;
}

}  // namespace

STRATA_NAME void* realloc(void* p, std::size_t bytes) {
  if (is_first_memory(p)) return move_from_first(p, bytes);
  ThreadState& state = t_state;
  if (!enter(state)) {
    if (find_next()) return g_next.realloc(p, bytes);
    return p == nullptr ? allocate_first(bytes, 16) : nullptr;
  }
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  return note_realloc(state, p, bytes, stack, [&] { return g_next.realloc(p, bytes); });
}

STRATA_NAME void* reallocarray(void* p, std::size_t count, std::size_t bytes) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product)) return refuse();
  if (is_first_memory(p)) return move_from_first(p, product);
  ThreadState& state = t_state;
  if (!enter(state)) return find_next() ? g_next.realloc(p, product) : nullptr;
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  return note_realloc(state, p, product, stack, [&] {
    return g_next.reallocarray != nullptr ? g_next.reallocarray(p, count, bytes)
                                          : g_next.realloc(p, product);
  });
}

STRATA_NAME int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  ThreadState& state = t_state;
  if (!find_next() || g_next.posix_memalign == nullptr) return ENOMEM;
  if (!enter(state)) return g_next.posix_memalign(out, alignment, bytes);
  const std::uint32_t stack = STRATA_STACK_HERE(state);
  const int error = g_next.posix_memalign(out, alignment, bytes);
  if (error == EINVAL) {
    leave(state);  // an invalid call, not an allocation
    return error;
  }
  note_aligned(state, error == 0 ? *out : nullptr, alignment, bytes, stack);
  return error;
}

STRATA_NAME void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return make_aligned(&Next::aligned_alloc, alignment, bytes);
}

STRATA_NAME void* memalign(std::size_t alignment, std::size_t bytes) {
  return make_aligned(&Next::memalign, alignment, bytes);
}

STRATA_NAME void* valloc(std::size_t bytes) { return make_pages(&Next::valloc, bytes); }
STRATA_NAME void* pvalloc(std::size_t bytes) { return make_pages(&Next::pvalloc, bytes); }

STRATA_NAME void free_sized(void* p, std::size_t bytes) { give_back(p, &Next::free_sized, bytes); }

STRATA_NAME void free_aligned_sized(void* p, std::size_t alignment, std::size_t bytes) {
  give_back(p, &Next::free_aligned_sized, alignment, bytes);
}
