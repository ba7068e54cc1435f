#include "os/stack.h"

#if __has_include(<execinfo.h>)
#include <execinfo.h>

#include <algorithm>
#include <atomic>

#include "os/frame_rules.h"
#include "os/symbol.h"
#include "os/table_entry.h"

// Weak: a static program does not link it because of us; its stacks are walked without it.
#pragma weak backtrace

// The linker's symbols: where the file with this code begins, and where its code ends.
extern "C" {
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char etext[];
}

namespace {

/// libgcc's struct dwarf_eh_bases: what the pointers of an entry are relative to.
struct EntryBases {
  void* text;
  void* data;
  void* function;
};
using FindEntry = const void*(void* instruction, EntryBases* bases);

}  // namespace

/// libgcc's function: returns the entry of the function that contains an instruction, or nullptr.
/// Weak as above.
extern "C" [[gnu::weak]] const void* _Unwind_Find_FDE(void* instruction, EntryBases* bases);

namespace strata::os {
namespace {

// Chosen: more than our own frames between malloc and the unwinder.
constexpr std::size_t kMaxOwnFrames = 16;
constexpr std::size_t kMaxFrames = 128;
constexpr std::size_t kMaxCallees = 8;  // between the caller of this file and the unwinder
// Chosen: larger frames are left to the unwinder. The limit bounds how far a wrong rule can make us
// read beyond the frames that were walked.
constexpr std::uintptr_t kMaxFrameBytes = 1 << 20;
// Chosen: comparisons take 20 to 50 instructions per stack.
constexpr std::uint64_t kStacksPerComparison = 1024;

// release after all below is written, acquire before a stack is taken. The unwinder may come later,
// while threads take stacks: each walk looks once whether it is there.
std::atomic<bool> g_is_prepared{false};
std::atomic<bool> g_has_unwinder{false};
// relaxed, these and the next: the two above publish them.
std::atomic<bool> g_is_alone{false};  // our code is not in the program's file
std::atomic<FindEntry*> g_find_entry{nullptr};
// The unwinder's file, if it has a file of its own.
std::atomic<std::uintptr_t> g_unwinder{0};
std::atomic<std::size_t> g_unwinder_bytes{0};

constinit FrameRules g_rules;
// relaxed: counts, of which some may be lost.
std::atomic<std::uint64_t> g_by_rules{0};
std::atomic<std::uint64_t> g_by_unwinder{0};
std::atomic<std::uint64_t> g_differences{0};

std::uint64_t count(std::atomic<std::uint64_t>& counter) noexcept {
  const std::uint64_t counted = counter.load(std::memory_order_relaxed) + 1;
  counter.store(counted, std::memory_order_relaxed);
  return counted;
}

/// Copies the frames, without those of our own code if these can be told by their addresses.
/// \returns  how many it copied
std::size_t keep_callers(const std::uintptr_t* all, std::size_t count, std::uintptr_t* frames,
                         std::size_t capacity) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  const auto end = reinterpret_cast<std::uintptr_t>(etext);
  std::size_t first = 0;
  if (g_is_alone.load(std::memory_order_relaxed)) {
    while (first < count && all[first] >= begin && all[first] < end) ++first;
  }
  const std::size_t kept = std::min(count - first, capacity);
  std::copy(all + first, all + first + kept, frames);
  return kept;
}

/// Reads a word of this thread's stack, in any function's frame.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) inline std::uintptr_t word_at(
    std::uintptr_t address) noexcept {
  return *reinterpret_cast<const std::uintptr_t*>(address);
}

std::uintptr_t without_signature(std::uintptr_t pc) noexcept {
#if defined(__aarch64__)
  register std::uintptr_t link asm("x30") = pc;
  asm("hint 7" : "+r"(link));  // xpaclri, which older processors pass over
  return link;
#else
  return pc;
#endif
}

enum class Search : bool { kOwn, kAny };

/// Finds an entry by our own search, which takes no lock; otherwise (kAny) by the unwinder's, which
/// also knows code made at run time.
TableEntry find_entry(std::uintptr_t instruction, Search search) noexcept {
  const TableEntry found = can_find_table_entries() ? find_table_entry(instruction) : TableEntry{};
  FindEntry* const find = g_find_entry.load(std::memory_order_relaxed);
  if (found.entry != nullptr || search == Search::kOwn || find == nullptr) return found;
  EntryBases bases{};
  const void* const entry = find(reinterpret_cast<void*>(instruction), &bases);
  return {entry, reinterpret_cast<std::uintptr_t>(bases.function)};
}

/// The rule for a return address of this stack: a known one, or one read from the unwind table.
FrameRule rule_for(std::uintptr_t pc, Search search) noexcept {
  const FrameRule known = g_rules.find(pc);
  if (known.kind != FrameRule::Kind::kUnknown) return known;
  const TableEntry found = find_entry(pc - 1, search);
  if (found.entry == nullptr) return {};
  const FrameRule read = read_frame_rule(found.entry, found.function, pc);
  if (read.kind != FrameRule::Kind::kUnknown) g_rules.note(pc, read);
  return read;
}

constexpr std::uintptr_t words(std::int16_t count) noexcept {
  return static_cast<std::uintptr_t>(std::intptr_t{count}) * sizeof(std::uintptr_t);
}

/// Goes to the caller's frame. The words that it reads lie in the stack from the frame's sp up.
/// They are in use if the rule is right; if it is wrong, they are at least not far away.
/// \returns  False if the rule cannot be right
bool step(StackPlace& frame, FrameRule rule) noexcept {
  constexpr std::uintptr_t kWord = sizeof(std::uintptr_t);
  const auto is_near = [&](std::uintptr_t address) {
    return address - frame.sp <= kMaxFrameBytes && address % kWord == 0;
  };
  std::uintptr_t cfa =
      (rule.kind == FrameRule::Kind::kFromStack ? frame.sp : frame.fp) + words(rule.cfa_words);
  if (!is_near(cfa)) return false;
  if (rule.kind == FrameRule::Kind::kFromSaved) {
    cfa = word_at(cfa);
    if (!is_near(cfa)) return false;
  }
  const std::uintptr_t room = cfa - frame.sp;
  if (room < words(static_cast<std::int16_t>(-rule.return_words)) || room == 0 ||
      room < words(static_cast<std::int16_t>(-rule.frame_words))) {
    return false;
  }
  const std::uintptr_t pc = word_at(cfa + words(rule.return_words));
  frame.pc = rule.is_signed ? without_signature(pc) : pc;
  if (rule.frame_words != 0) frame.fp = word_at(cfa + words(rule.frame_words));
  frame.sp = cfa;
  return true;
}

/// Notes the words that a walk reads. Notes a saved frame pointer only if a later rule needs it: in
/// most code the register holds anything.
class TrailKeeper {
 public:
  explicit TrailKeeper(StackTrail* trail) noexcept : trail_(trail) {}

  void note(FrameRule rule, const StackPlace& before, const StackPlace& after) noexcept {
    if (trail_ == nullptr) return;
    if (rule.kind != FrameRule::Kind::kFromStack) need_frame_pointer();
    if (rule.kind == FrameRule::Kind::kFromSaved) add(before.fp + words(rule.cfa_words));
    add(after.sp + words(rule.return_words));
    if (rule.frame_words == 0) return;
    frame_pointer_at_ = after.sp + words(rule.frame_words);
    is_frame_pointer_noted_ = false;
  }
  void finish(bool is_complete) noexcept {
    if (trail_ != nullptr) trail_->is_whole = is_complete && has_room_;
  }

 private:
  void need_frame_pointer() noexcept {
    if (frame_pointer_at_ == 0) {
      trail_->depends_on_fp = true;
    } else if (!is_frame_pointer_noted_) {
      add(frame_pointer_at_);
      is_frame_pointer_noted_ = true;
    }
  }
  void add(std::uintptr_t address) noexcept {
    has_room_ = has_room_ && trail_->count < StackTrail::kMostWords;
    if (has_room_) trail_->words[trail_->count++] = {address, word_at(address)};
  }

  StackTrail* const trail_;
  std::uintptr_t frame_pointer_at_ = 0;
  bool is_frame_pointer_noted_ = false;
  bool has_room_ = true;
};

struct Walk {
  std::size_t count;
  bool is_complete;  ///< it reached the end, or the capacity
  /// The unwinder was there as the walk began, and does not lie on it: otherwise it must not be
  /// asked.
  bool may_unwind;
};

/// Whether an address is in the unwinder. That sorts tables registered at run time in memory that
/// it gets from the malloc, under the lock that its search takes.
bool is_in_unwinder(std::uintptr_t pc) noexcept {
  return pc - g_unwinder.load(std::memory_order_relaxed) <
         g_unwinder_bytes.load(std::memory_order_relaxed);
}

/// Walks as far as there are rules.
Walk walk_noting(StackPlace frame, std::uintptr_t* all, std::size_t capacity,
                 TrailKeeper& trail) noexcept {
  // Once, before the first look at where its code is.
  Search search = g_has_unwinder.load(std::memory_order_acquire) ? Search::kAny : Search::kOwn;
  for (std::size_t count = 0;;) {
    const auto ended = [&](bool is_complete) -> Walk {
      return {count, is_complete, search == Search::kAny};
    };
    if (frame.pc == 0) return ended(true);
    all[count++] = frame.pc;
    if (is_in_unwinder(frame.pc)) search = Search::kOwn;
    if (count == capacity) return ended(true);
    const FrameRule rule = rule_for(frame.pc, search);
    if (rule.kind == FrameRule::Kind::kOutermost) return ended(true);
    if (rule.kind == FrameRule::Kind::kUnknown) return ended(false);
    const StackPlace before = frame;
    if (!step(frame, rule)) {
      g_rules.note(before.pc, {});
      return ended(false);
    }
    trail.note(rule, before, frame);
  }
}

Walk walk(const StackPlace& frame, std::uintptr_t* all, std::size_t capacity,
          StackTrail* trail) noexcept {
  TrailKeeper keeper(trail);
  const Walk walked = walk_noting(frame, all, capacity, keeper);
  keeper.finish(walked.is_complete);
  return walked;
}

/// Takes the unwinder's stack from `caller` on. The frames before it are those of the functions
/// that it called: ours and, under a sanitizer, the sanitizer's.
std::size_t unwind(std::uintptr_t caller, std::uintptr_t* all, std::size_t capacity) noexcept {
  void* found[kMaxFrames + kMaxCallees];
  const int count = backtrace(found, static_cast<int>(capacity + kMaxCallees));
  void** const end = found + std::max(count, 0);
  void** first = std::find(found, end, reinterpret_cast<void*>(caller));
  const std::size_t callers = std::min(static_cast<std::size_t>(end - first), capacity);
  for (std::size_t i = 0; i < callers; ++i) all[i] = reinterpret_cast<std::uintptr_t>(first[i]);
  return callers;
}

std::size_t wanted_for(std::size_t capacity) noexcept {
  return std::min(capacity + kMaxOwnFrames, kMaxFrames);
}

/// Finds the unwinder's search, and its file. The unwinder is loaded by now.
void find_unwinder() noexcept {
  void* const shared = find_function_of("libgcc_s.so.1", "_Unwind_Find_FDE");
  g_find_entry.store(
      &_Unwind_Find_FDE != nullptr ? &_Unwind_Find_FDE : reinterpret_cast<FindEntry*>(shared),
      std::memory_order_relaxed);
  if (shared == nullptr || !can_find_table_entries()) return;
  g_unwinder.store(reinterpret_cast<std::uintptr_t>(find_file(shared)), std::memory_order_relaxed);
  g_unwinder_bytes.store(find_file_bytes(shared), std::memory_order_relaxed);
}

const auto kOwnCode = &prepare_stacks;

bool has_unwinder() noexcept {
  if (&backtrace == nullptr) return false;
  // backtrace() ends the process if it does not find its own caller: a static executable registers
  // its tables after its first allocations.
  EntryBases bases{};
  if (&_Unwind_Find_FDE != nullptr &&
      _Unwind_Find_FDE(reinterpret_cast<void*>(kOwnCode), &bases) == nullptr) {
    return false;
  }
  // If the unwinder cannot be loaded, there is not even one frame.
  void* frame = nullptr;
  return backtrace(&frame, 1) == 1;
}

}  // namespace

bool prepare_stacks() noexcept {
  if (g_has_unwinder.load(std::memory_order_acquire)) return true;
  if (!has_unwinder()) return prepare_walks();
  find_unwinder();
  g_is_alone.store(!is_part_of_the_program(), std::memory_order_relaxed);
  g_is_prepared.store(true, std::memory_order_release);
  g_has_unwinder.store(true, std::memory_order_release);
  return true;
}

bool prepare_walks() noexcept {
  if (!can_find_table_entries() ||
      find_table_entry(reinterpret_cast<std::uintptr_t>(kOwnCode)).entry == nullptr) {
    return g_has_unwinder.load(std::memory_order_relaxed);
  }
  g_is_alone.store(!is_part_of_the_program(), std::memory_order_relaxed);
  g_is_prepared.store(true, std::memory_order_release);
  return true;
}

[[gnu::noinline]] std::size_t unwind_stack(std::uintptr_t* frames, std::size_t capacity) noexcept {
  if (!g_has_unwinder.load(std::memory_order_acquire)) return 0;
  std::uintptr_t all[kMaxFrames];
  const std::size_t unwound = unwind(caller_place().pc, all, wanted_for(capacity));
  return keep_callers(all, unwound, frames, capacity);
}

namespace {

/// Takes the unwinder's stack in place of the walk's, and compares the two. Separate, since most
/// walks do not need the 2 KiB that this puts on the stack.
[[gnu::noinline]] std::size_t unwind_instead(const StackPlace& caller, Walk walked,
                                             std::uintptr_t* all, std::size_t wanted,
                                             StackTrail* trail) noexcept {
  std::uintptr_t truth[kMaxFrames];
  const std::size_t unwound = unwind(caller.pc, truth, wanted);
  // An outdated rule mostly leads to a word that is no return address, which ends the walk.
  if (walked.count > unwound || (walked.is_complete && walked.count != unwound) ||
      !std::equal(all, all + walked.count, truth)) {
    count(g_differences);
    g_rules.forget_all();
    if (trail != nullptr) trail->is_whole = false;
  }
  std::copy(truth, truth + unwound, all);
  return unwound;
}

/// Walks from `caller` on, or takes the unwinder's stack if the walk does not reach an end.
/// Compares the two from time to time.
std::size_t walk_or_unwind(const StackPlace& caller, std::uintptr_t* all, std::size_t wanted,
                           StackTrail* trail) noexcept {
  const Walk walked = walk(caller, all, wanted, trail);
  if (!walked.may_unwind) return walked.count;
  if (!walked.is_complete) {
    count(g_by_unwinder);
  } else if (count(g_by_rules) % kStacksPerComparison != 0) {
    return walked.count;
  }
  return unwind_instead(caller, walked, all, wanted, trail);
}

}  // namespace

[[gnu::noinline]] std::size_t capture_stack(std::uintptr_t* frames, std::size_t capacity) noexcept {
  if (!g_is_prepared.load(std::memory_order_acquire)) return 0;
  const StackPlace caller = caller_place();
  std::uintptr_t all[kMaxFrames];
  const std::size_t found = walk_or_unwind(caller, all, wanted_for(capacity), nullptr);
  return keep_callers(all, found, frames, capacity);
}

std::size_t capture_stack_from(const StackPlace& place, std::uintptr_t* frames,
                               std::size_t capacity, StackTrail& trail) noexcept {
  trail.count = 0;
  trail.depends_on_fp = trail.is_whole = false;
  if (!g_is_prepared.load(std::memory_order_acquire)) return 0;
  std::uintptr_t all[kMaxFrames];
  const std::size_t found = walk_or_unwind(place, all, std::min(capacity, kMaxFrames), &trail);
  std::copy(all, all + found, frames);
  return found;
}

std::size_t capture_stack_at(const StackPlace& instruction, std::uintptr_t* frames,
                             std::size_t capacity) noexcept {
  if (!g_is_prepared.load(std::memory_order_acquire)) return 0;
  // A rule is for the instruction before its address, which usually is a call.
  const Walk walked =
      walk({instruction.pc + 1, instruction.sp, instruction.fp}, frames, capacity, nullptr);
  if (walked.is_complete || !walked.may_unwind) return walked.count;
  std::uintptr_t truth[kMaxFrames];
  const std::size_t unwound = unwind(instruction.pc, truth, wanted_for(capacity));
  if (unwound == 0) return walked.count;
  ++truth[0];
  const std::size_t kept = std::min(unwound, capacity);
  std::copy(truth, truth + kept, frames);
  return kept;
}

StackCounts stack_counts() noexcept {
  return {g_by_rules.load(std::memory_order_relaxed), g_by_unwinder.load(std::memory_order_relaxed),
          g_differences.load(std::memory_order_relaxed)};
}

}  // namespace strata::os

#else  // a C library without backtrace(), such as musl: there are no stacks

namespace strata::os {

bool prepare_stacks() noexcept { return false; }
bool prepare_walks() noexcept { return false; }
std::size_t capture_stack_at(const StackPlace&, std::uintptr_t*, std::size_t) noexcept { return 0; }
std::size_t unwind_stack(std::uintptr_t*, std::size_t) noexcept { return 0; }
std::size_t capture_stack(std::uintptr_t*, std::size_t) noexcept { return 0; }
std::size_t capture_stack_from(const StackPlace&, std::uintptr_t*, std::size_t,
                               StackTrail& trail) noexcept {
  trail.count = 0;
  trail.depends_on_fp = trail.is_whole = false;
  return 0;
}
StackCounts stack_counts() noexcept { return {}; }

}  // namespace strata::os

#endif
