#pragma once

#include <cstddef>
#include <cstdint>

#include "os/stack.h"
#include "recorder/recording.h"

/// \file  How a thread records a call: as a record in the thread's own chunk.

/// Declares a function that replaces the next library's for the program.
#define STRATA_NAME extern "C" [[gnu::visibility("default")]]

/// The stack of the function that this is inlined into; 0 if no stacks are taken.
#define STRATA_STACK_HERE(state)                              \
  (strata::recorder::g_recording.settings().stack_frames == 0 \
       ? 0                                                    \
       : strata::recorder::take_stack((state), strata::os::caller_place()))

namespace strata::recorder {

struct ThreadState {
  std::uint32_t is_busy;  ///< inside one of our functions: nested calls are not the program's
  std::uint32_t used;     ///< records of the chunk
  std::uint32_t most;     ///< records to use at most; 0: no chunk
  Chunk* chunk;
  Stream* stream;
};
/// Zero in a new thread. Small enough for the dynamic linker's static TLS reserve: access needs no
/// call and no allocation.
extern constinit thread_local ThreadState t_state;

/// Initializes whatever is not initialized yet.
/// \returns  Whether to record this call.
bool begin_slowly(ThreadState& state, bool in_calloc) noexcept;
/// \returns  False if there is no room for the records of a call.
bool make_room(ThreadState& state) noexcept;
std::uint32_t take_stack(ThreadState& state, const os::StackPlace& place) noexcept;

/// Returns whether to record the call; if so, the caller must call leave().
[[gnu::always_inline]] inline bool enter(ThreadState& state, bool in_calloc = false) noexcept {
  if (state.is_busy != 0) return false;
  if (!g_recording.is_on() && !begin_slowly(state, in_calloc)) return false;
  state.is_busy = 1;
  return true;
}
[[gnu::always_inline]] inline void leave(ThreadState& state) noexcept { state.is_busy = 0; }

struct Call {
  trace::Operation operation;
  RecordKind kind = RecordKind::kCall;
  unsigned alignment_log2 = 0;
};

inline unsigned log2_of(std::size_t alignment) noexcept {
  return alignment == 0 ? 0 : static_cast<unsigned>(__builtin_ctzll(alignment));
}

/// \pre      enter() returned true
/// \returns  False if there is no room; the other half of a realloc is then not recorded either
[[gnu::always_inline]] inline bool note(ThreadState& state, Call call, const void* address,
                                        std::size_t size, std::uint32_t stack) noexcept {
  // Both halves of a realloc and their sizes: record all or none.
  constexpr std::uint32_t kMost = 4;
  const bool has_room = call.kind == RecordKind::kReallocEnd || state.used + kMost <= state.most;
  if (!has_room && !make_room(state)) return false;
  const std::uint32_t used = state.used;
  Chunk& chunk = *state.chunk;
  Record* const record = &chunk.records[used];
  record->what = Record::pack(call.kind, call.operation, address, call.alignment_log2);
  // A stream is ordered by position, whatever the clock says. The merger corrects an allocation
  // that seems too early.
  const bool is_end = call.kind == RecordKind::kReallocBegin ||
                      (call.kind == RecordKind::kCall && trace::ends_object(call.operation));
  record->time = is_end && g_recording.had_several_streams() ? g_recording.clock().count_in_order()
                                                             : g_recording.clock().count();
  record->size = static_cast<std::uint32_t>(size);
  record->stack = stack;
  std::uint32_t count = 1;
  if (__builtin_expect(size >= Record::kSizeFollows, 0)) {
    record->size = Record::kSizeFollows;
    record[1].what = Record::pack(RecordKind::kSize, call.operation, nullptr, 0);
    record[1].time = size;
    count = 2;
  }
  state.used = used + count;
  chunk.published.store(used + count, std::memory_order_release);
  return true;
}

}  // namespace strata::recorder
