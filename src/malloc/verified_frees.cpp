// The malloc under STRATA_CHECKS=frees: every small object has a state (ObjectStates), which says
// whether it is live. malloc sets it when it hands the object out; free, realloc and
// malloc_usable_size check it. Under STRATA_CHECKS=auto all of this ends when it costs too much.

#include "base/fatal.h"
#include "base/text_writer.h"
#include "malloc/malloc_instance.h"
#include "os/threads.h"

namespace strata {
namespace {

// Chosen, for STRATA_CHECKS=auto: how many frees a program verifies before its CPU time is asked
// for, 1 to 3 ms.
constexpr std::uint64_t kFreesForNothing = 1u << 18;
// Chosen: verification adds 5 ns to a pair, and some 30 where memory is slow (docs/decisions/0015):
// one free per so much CPU time is about 1%.
constexpr std::uint64_t kNsForAFree = 2000;

// Chosen: the share of the held memory that states may take, and so much more.
constexpr std::size_t kStatesShare = 64;
constexpr std::size_t kStatesForNothing = std::size_t{128} << 10;

/// Whether an object of a class fits a call that gives its size or alignment.
bool fits(const FreeCall& call, unsigned size_class) noexcept {
  if (!call.says_bytes() || call.size_class() == size_class) return true;
  // realloc leaves an object in place whose class would be another one now; delete frees none such.
  return call.by == FreeCall::By::kFree && call.alignment == FreeCall::kUnsaid &&
         Engine::stays_in_place(SizeClassMap::bytes_of(size_class), call.bytes);
}

[[noreturn, gnu::cold]] void die_of_size(const void* p, unsigned size_class,
                                         const FreeCall& call) noexcept {
  TextWriter before;
  before.text("mismatched ")
      .text(call.by != FreeCall::By::kFree        ? "sized delete"
            : call.alignment != FreeCall::kUnsaid ? "free_aligned_sized"
                                                  : "free_sized")
      .text(" of ");
  TextWriter after;
  after.text(": it is an object of ")
      .decimal(SizeClassMap::bytes_of(size_class))
      .text(" bytes and was freed with ")
      .decimal(call.bytes);
  fatal_pointer(before.view(), p, after.view());
}

}  // namespace

/// Counts what the thread has verified since it last counted. Under kAuto it may be enough.
[[gnu::cold, gnu::noinline]] void MallocInstance::count_verified(ThreadState& thread) noexcept {
  const auto more = static_cast<std::uint64_t>(std::int64_t{kFreesAtOnce} - thread.frees_left);
  thread.frees_left = kFreesAtOnce;
  const std::uint64_t verified = verified_.fetch_add(more, std::memory_order_relaxed) + more;
  if (must_not_wait()) return;
  host_.follow_forks();  // a child's CPU time begins at 0
  if (options_.checks != Options::Checks::kAuto) return;
  if (verified > kFreesForNothing && verified - kFreesForNothing > host_.cpu_ns() / kNsForAFree)
    stop_verifying();
  if (!verifies_frees()) open_gate(thread);
}

/// Ends verification, too, if the states take more memory than they may.
void MallocInstance::bound_states() noexcept {
  const std::size_t bytes = engine_.state_bytes();
  if (bytes > kStatesForNothing &&
      bytes - kStatesForNothing > engine_.limit().held_bytes() / kStatesShare)
    stop_verifying();
}

/// Ends verification. Each thread goes on with its cache alone once it notices, and leaves the
/// states as they are. So a thread that has not noticed may find a wrong state in an object that
/// another thread handed out. Before it reports that, it checks whether frees are still verified:
/// the program's own synchronization, by which it got the object, lets it see that they are not.
void MallocInstance::stop_verifying() noexcept {
  checks_now_.store(Options::Checks::kBasic, std::memory_order_relaxed);
  engine_.spans().keep_states(false);
  engine_.registry().put_nothing_before_caches();
}

void MallocInstance::open_gate(ThreadState& thread) noexcept {
  if (ThreadCache* const cache = thread.cache) engine_.registry().open_gate(*cache, thread);
}

/// \pre  frees are verified, and `p` points into a small object
std::uint8_t MallocInstance::state_of(const void* p) const noexcept {
  const ObjectStates::Place place = engine_.map().states_of(p);
  return place != ObjectStates::kNoPlace
             ? ObjectStates::at(place, p).load(std::memory_order_relaxed)
             : ObjectStates::kNever;
}

/// Dies with a sentence if no live object starts at `p`.
/// \pre  frees are verified, and `size_class` is the page map's for `p`; if that has none, the
///       engine checks
void MallocInstance::expect_live(const void* p, unsigned size_class, const char* action) noexcept {
  if (size_class == 0) return;
  const std::uint8_t now = state_of(p);
  if (now == ObjectStates::live_at(p)) [[likely]]
    return;
  engine_.usable_bytes(p, action);  // dies if no object starts there
  const bool was_freed = now == ObjectStates::kFreed;
  fatal_call(
      action, p,
      was_freed ? ": the object is free already" : ": it was freed before, or never allocated",
      was_freed);
}

/// Takes back a freed object. It has to be live and, where sizes are compared, of the size that the
/// call says.
///
/// glibc gives a new thread the stack of one that has ended: it frees the thread-local variables
/// that the loader made for that one, and forgets them afterwards. If the process is copied in
/// between, it frees them again in the child.
/// \returns  false if it was taken back before the process was forked, by a thread that is not here
bool MallocInstance::take_back(void* p, unsigned size_class, const FreeCall& call,
                               const void* caller) noexcept {
  if (has_lost_threads_ && state_of(p) == ObjectStates::kFreed && os::is_c_library(caller))
    return false;
  expect_live(p, size_class, "free");
  if (size_class == SizeClassMap::kHomeward) size_class = engine_.central().class_of(p);
  if (options_.compares_frees() && !fits(call, size_class)) die_of_size(p, size_class, call);
  ObjectStates::at(engine_.map().states_of(p), p)
      .store(ObjectStates::kFreed, std::memory_order_relaxed);
  return true;
}

}  // namespace strata
