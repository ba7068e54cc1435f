#include "recorder/calls.h"

#include <stdlib.h>

#include <atomic>

#include "os/environment.h"
#include "os/process.h"
#include "recorder/next.h"
#include "recorder/system.h"

extern "C" int __cxa_atexit(void (*handler)(void*), void* argument, void* library);

namespace strata::recorder {

constinit thread_local ThreadState t_state{};

namespace {

std::atomic<bool> g_may_take_stacks{false};  // relaxed: whoever sees it late has no stack

void end_recording(void*) noexcept { g_recording.end(); }

/// Starts the recording at the first call of the process, or of a child of fork. Does nothing
/// before the C library has the environment.
/// \param in_calloc  the caller may be the C library, which allocates room for exit handlers under
///                   their lock; then our exit handler is registered later
void start_recording(bool in_calloc) noexcept {
  static bool is_end_registered = false;
  if (!os::has_environment() || !find_next()) return;
  // The first handler registered is the last to run. It names no library, so it does not run when
  // ours is finalized. Accepted: calls made by handlers registered before it are not recorded.
  if (!is_end_registered && !in_calloc) {
    is_end_registered = true;
    __cxa_atexit(end_recording, nullptr, nullptr);
    at_quick_exit([] { end_recording(nullptr); });
  }
  if (g_recording.mode() == Recording::Mode::kNotStarted) g_recording.start(next_library());
}

/// Runs with the program's constructors; from then on the unwinder can be loaded.
[[gnu::constructor]] void prepare() noexcept {
  ThreadState& state = t_state;
  const bool was_busy = state.is_busy != 0;
  state.is_busy = 1;
  start_recording(false);
  if (g_recording.settings().stack_frames != 0)
    g_may_take_stacks.store(os::prepare_stacks(), std::memory_order_relaxed);
  const int signal = g_recording.settings().signal;
  if (signal != 0 && !os::handle_signal(signal, [](int) { g_recording.toggle(); })) {
    say("strata record: the program has its own handler for the signal; nothing will be "
        "recorded\n");
  }
  state.is_busy = was_busy;
}

}  // namespace

bool begin_slowly(ThreadState& state, bool in_calloc) noexcept {
  if (g_recording.mode() != Recording::Mode::kNotStarted) return g_recording.is_on();
  state.is_busy = 1;
  start_recording(in_calloc);
  state.is_busy = 0;
  return g_recording.is_on();
}

bool make_room(ThreadState& state) noexcept {
  if (state.stream == nullptr) {
    state.stream = g_recording.take_stream();
    if (state.stream == nullptr) return false;
  } else if (!g_recording.make_room(*state.stream)) {
    return false;
  }
  state.chunk = state.stream->current;
  state.used = 0;
  state.most = Chunk::kRecords;
  return true;
}

std::uint32_t take_stack(ThreadState& state, const os::StackPlace& place) noexcept {
  if (!g_may_take_stacks.load(std::memory_order_relaxed)) return 0;
  if (state.stream == nullptr && !make_room(state)) return 0;
  Stream& stream = *state.stream;
  if (stream.stacks == nullptr) {
    // Zero is a valid empty cache.
    stream.stacks = static_cast<StackCache*>(map_memory(sizeof(StackCache)));
    if (stream.stacks == nullptr) return 0;
  }
  return stream.stacks->stack_at(place, g_recording.settings().stack_frames, g_recording.stacks());
}

}  // namespace strata::recorder
