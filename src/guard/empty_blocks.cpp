#include "guard/empty_blocks.h"

#include <string_view>

#include "base/fatal.h"
#include "base/text_writer.h"
#include "guard/call_site.h"
#include "guard/fault_report.h"
#include "guard/pattern.h"

namespace strata {

/// \returns  False when out of memory; the next call tries again.
bool EmptyBlocks::start() noexcept {
  if (states_ == nullptr) states_ = static_cast<State*>(metadata_.allocate_forever(kBlocks));
  if (states_ == nullptr) return false;
  void* const start = pages_.reserve(kReservedBytes);
  start_.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
  return start != nullptr;
}

void* EmptyBlocks::allocate() noexcept {
  LockGuard guard(lock_);
  if (live_ == kBlocks || (start_.load(std::memory_order_relaxed) == 0 && !start())) return nullptr;
  for (std::size_t i = 0; i < kMostPassed && states_[next_] == State::kLive; ++i)
    next_ = (next_ + 1) % kBlocks;
  if (states_[next_] == State::kLive) return nullptr;
  const std::size_t block = next_;
  states_[block] = State::kLive;
  next_ = (block + 1) % kBlocks;
  ++live_;
  return reinterpret_cast<void*>(start_.load(std::memory_order_relaxed) + block * kBlockBytes);
}

/// \returns  That of the block at `p`, which is live.
EmptyBlocks::State& EmptyBlocks::state_of(const void* p, const char* action) noexcept {
  const std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(p) - start_.load(std::memory_order_relaxed);
  State& state = states_[offset / kBlockBytes];
  if (state == State::kLive && offset % kBlockBytes == 0) return state;
  const bool is_double = state == State::kFreed && std::string_view(action) == "free";
  TextWriter before;
  before.text(is_double ? "double " : "invalid ").text(action).text(" of ");
  fatal_pointer(before.view(), p,
                offset % kBlockBytes != 0 ? ": it is misaligned, no allocation starts there"
                : state == State::kFreed  ? ": the block of 0 bytes is free already"
                                          : ": it was never allocated");
}

void EmptyBlocks::deallocate(const void* p, const FreeCall& call) noexcept {
  LockGuard guard(lock_);
  State& state = state_of(p, "free");
  if (call.says_bytes() && call.bytes != 0) {
    TextWriter sentence;
    contradicts({FreeCall::By::kFree, call.bytes}, Allocation{}, p, sentence);
    fatal(sentence.view());
  }
  state = State::kFreed;
  --live_;
}

bool EmptyBlocks::explain(const os::Fault& fault) const noexcept {
  if (!owns(fault.address)) return false;
  begin_fault_report();
  const auto* const address = static_cast<const char*>(fault.address);
  const std::ptrdiff_t offset = reinterpret_cast<std::intptr_t>(address) % kBlockBytes;
  const char* const block = address - offset;
  const State state =
      states_[(reinterpret_cast<std::uintptr_t>(block) - start_.load(std::memory_order_relaxed)) /
              kBlockBytes];
  if (state == State::kNever) {
    report_wild_access(fault);
    return true;
  }
  TextWriter sentence;
  say_access(sentence, state == State::kLive ? "overflow" : "use after free", block, 0,
             verb_of(fault), offset);
  print_about(address, sentence);
  CallSite::of_fault(fault).print("accessed");
  return true;
}

void EmptyBlocks::expect_live(const void* p, const char* action) noexcept {
  LockGuard guard(lock_);
  state_of(p, action);
}

}  // namespace strata
