// All replaceable operators new and delete, by their mangled names: a recorded C program has no C++
// runtime, and neither has the recorder.
//
// A throwing operator cannot be called while the thread is marked as busy: the exception would
// leave it marked. So the non-throwing one is called first. If it fails, the throwing one is
// called, unmarked.

#include <cstddef>
#include <cstdint>

#include "os/process.h"
#include "recorder/calls.h"
#include "recorder/next.h"
#include "recorder/system.h"

using namespace strata::recorder;
using strata::trace::Operation;

namespace {

/// Allocates by malloc if the C++ runtime cannot be found (a plugin may have its own). This cannot
/// throw.
void* make_without_operators(std::size_t bytes, std::size_t alignment) noexcept {
  if (!find_next()) return allocate_first(bytes, alignment);
  if (alignment == 0) return g_next.malloc(bytes);
  const std::size_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
  return g_next.aligned_alloc != nullptr ? g_next.aligned_alloc(alignment, rounded) : nullptr;
}

[[noreturn]] void end_for_want_of_memory() noexcept {
  say("strata record: operator new is out of memory and cannot throw: the program has no C++ "
      "runtime\n");
  strata::os::abort_process();
}

/// Returns nullptr on failure, whichever form the program called.
/// \pre  entered, or called from one of our functions
void* try_to_make(std::size_t bytes, std::size_t alignment, bool is_array) noexcept {
  static const char nothrow = 0;
  const auto& next = g_next_operators;
  if (!find_next_operators()) return make_without_operators(bytes == 0 ? 1 : bytes, alignment);
  if (next.are_plain) return make_without_operators(bytes == 0 ? 1 : bytes, alignment);
  if (alignment == 0) {
    const auto make = is_array ? next.make_array_nothrow : next.make_nothrow;
    return make != nullptr ? make(bytes, &nothrow) : nullptr;
  }
  const auto make = is_array ? next.make_array_aligned_nothrow : next.make_aligned_nothrow;
  return make != nullptr ? make(bytes, alignment, &nothrow) : nullptr;
}

/// Does what a throwing form does when memory runs out: calls the handler, then throws.
void* make_or_throw(std::size_t bytes, std::size_t alignment, bool is_array) {
  const auto& next = g_next_operators;
  if (!find_next_operators()) end_for_want_of_memory();
  if (alignment == 0) return (is_array ? next.make_array : next.make)(bytes);
  const auto make = is_array ? next.make_array_aligned : next.make_aligned;
  if (make == nullptr) end_for_want_of_memory();
  return make(bytes, alignment);
}

void note_new(ThreadState& state, void* p, std::size_t bytes, std::size_t alignment,
              std::uint32_t stack) noexcept {
  note(state, {Operation::kNew, RecordKind::kCall, log2_of(alignment)}, p, bytes, stack);
}

[[gnu::always_inline]] inline void* make(std::size_t bytes, std::size_t alignment, bool is_array,
                                         bool may_throw) {
  ThreadState& state = t_state;
  void* p;
  if (enter(state)) {
    const std::uint32_t stack = STRATA_STACK_HERE(state);
    p = try_to_make(bytes, alignment, is_array);
    if (p != nullptr || !may_throw) note_new(state, p, bytes, alignment, stack);
    leave(state);
  } else if (may_throw && find_next_operators()) {
    return make_or_throw(bytes, alignment, is_array);
  } else {
    p = try_to_make(bytes, alignment, is_array);
  }
  return p != nullptr || !may_throw ? p : make_or_throw(bytes, alignment, is_array);
}

/// \param form  the next library's operator; if it has none, plain delete is called
template <typename... Rest>
[[gnu::always_inline]] inline void drop(void* p, void (*NextOperators::*form)(void*, Rest...),
                                        Rest... rest) noexcept {
  if (p == nullptr || is_first_memory(p)) return;
  ThreadState& state = t_state;
  const bool is_noted = enter(state);
  if (is_noted) note(state, {Operation::kDelete}, p, 0, 0);
  if (find_next_operators() && !g_next_operators.are_plain) {
    const auto function = g_next_operators.*form;
    function != nullptr ? function(p, rest...) : g_next_operators.drop(p);
  } else if (find_next()) {
    g_next.free(p);
  }
  if (is_noted) leave(state);
}

}  // namespace

// new, new[], and their forms: nothrow, aligned.
STRATA_NAME void* _Znwm(std::size_t bytes) { return make(bytes, 0, false, true); }
STRATA_NAME void* _Znam(std::size_t bytes) { return make(bytes, 0, true, true); }
STRATA_NAME void* _ZnwmRKSt9nothrow_t(std::size_t bytes, const void*) {
  return make(bytes, 0, false, false);
}
STRATA_NAME void* _ZnamRKSt9nothrow_t(std::size_t bytes, const void*) {
  return make(bytes, 0, true, false);
}
STRATA_NAME void* _ZnwmSt11align_val_t(std::size_t bytes, std::size_t alignment) {
  return make(bytes, alignment, false, true);
}
STRATA_NAME void* _ZnamSt11align_val_t(std::size_t bytes, std::size_t alignment) {
  return make(bytes, alignment, true, true);
}
STRATA_NAME void* _ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t bytes, std::size_t alignment,
                                                     const void*) {
  return make(bytes, alignment, false, false);
}
STRATA_NAME void* _ZnamSt11align_val_tRKSt9nothrow_t(std::size_t bytes, std::size_t alignment,
                                                     const void*) {
  return make(bytes, alignment, true, false);
}

// delete, delete[], and their forms: nothrow, sized, aligned.
STRATA_NAME void _ZdlPv(void* p) { drop(p, &NextOperators::drop); }
STRATA_NAME void _ZdaPv(void* p) { drop(p, &NextOperators::drop_array); }
STRATA_NAME void _ZdlPvRKSt9nothrow_t(void* p, const void*) { drop(p, &NextOperators::drop); }
STRATA_NAME void _ZdaPvRKSt9nothrow_t(void* p, const void*) { drop(p, &NextOperators::drop_array); }
STRATA_NAME void _ZdlPvm(void* p, std::size_t bytes) { drop(p, &NextOperators::drop_sized, bytes); }
STRATA_NAME void _ZdaPvm(void* p, std::size_t bytes) {
  drop(p, &NextOperators::drop_array_sized, bytes);
}
STRATA_NAME void _ZdlPvSt11align_val_t(void* p, std::size_t alignment) {
  drop(p, &NextOperators::drop_aligned, alignment);
}
STRATA_NAME void _ZdaPvSt11align_val_t(void* p, std::size_t alignment) {
  drop(p, &NextOperators::drop_array_aligned, alignment);
}
STRATA_NAME void _ZdlPvSt11align_val_tRKSt9nothrow_t(void* p, std::size_t alignment, const void*) {
  drop(p, &NextOperators::drop_aligned, alignment);
}
STRATA_NAME void _ZdaPvSt11align_val_tRKSt9nothrow_t(void* p, std::size_t alignment, const void*) {
  drop(p, &NextOperators::drop_array_aligned, alignment);
}
STRATA_NAME void _ZdlPvmSt11align_val_t(void* p, std::size_t bytes, std::size_t alignment) {
  drop(p, &NextOperators::drop_sized_aligned, bytes, alignment);
}
STRATA_NAME void _ZdaPvmSt11align_val_t(void* p, std::size_t bytes, std::size_t alignment) {
  drop(p, &NextOperators::drop_array_sized_aligned, bytes, alignment);
}
