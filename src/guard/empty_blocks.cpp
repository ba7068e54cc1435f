#include "guard/empty_blocks.h"

#include "base/fatal.h"
#include "base/text_writer.h"
#include "guard/call_site.h"
#include "guard/fault_report.h"
#include "guard/pattern.h"

namespace strata {

namespace {

[[noreturn, gnu::cold]] void die_of_no_block(const void* p, bool is_aligned, bool was_freed,
                                             const char* action) noexcept {
  fatal_call(action, p,
             !is_aligned ? ": it is misaligned, no allocation starts there"
             : was_freed ? ": the block of 0 bytes is free already"
                         : ": it was never allocated",
             was_freed && is_aligned);
}

}  // namespace

/// \returns  False when out of memory; the next call tries again.
bool EmptyBlocks::start() noexcept {
  if (states_ == nullptr) states_ = static_cast<State*>(metadata_.allocate_forever(kBlocks));
  if (states_ == nullptr) return false;
  void* const start = pages_.reserve(kReservedBytes);
  start_.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_release);
  return start != nullptr;
}

void* EmptyBlocks::allocate() noexcept {
  if (start_.load(std::memory_order_acquire) == 0) {
    LockGuard guard(lock_);
    if (start_.load(std::memory_order_relaxed) == 0 && !start()) return nullptr;
  }
  return allocate_another();
}

void* EmptyBlocks::allocate_another() noexcept {
  const std::uintptr_t start = start_.load(std::memory_order_acquire);
  if (start == 0) return nullptr;
  std::size_t offset = next_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < kMostPassed; ++i) {
    const std::size_t after = (offset + kBlockBytes) % kReservedBytes;
    State now = state_at(offset).load(std::memory_order_relaxed);
    if (now != State::kLive &&
        state_at(offset).compare_exchange_strong(now, State::kLive, std::memory_order_relaxed)) {
      next_.store(after, std::memory_order_relaxed);
      return reinterpret_cast<void*>(start + offset);
    }
    offset = after;
  }
  next_.store(offset, std::memory_order_relaxed);
  return nullptr;
}

void EmptyBlocks::deallocate(const void* p) noexcept {
  const std::size_t offset = offset_of(p);
  State now = State::kLive;
  if (offset % kBlockBytes != 0 ||
      !state_at(offset).compare_exchange_strong(now, State::kFreed, std::memory_order_relaxed))
    expect_live(p, "free");
}

void EmptyBlocks::deallocate(const void* p, const FreeCall& call) noexcept {
  if (call.says_bytes() && call.bytes != 0) {
    expect_live(p, "free");
    TextWriter sentence;
    contradicts({FreeCall::By::kFree, call.bytes}, Allocation{}, p, sentence);
    fatal(sentence.view());
  }
  deallocate(p);
}

bool EmptyBlocks::explain(const os::Fault& fault) const noexcept {
  if (!owns(fault.address)) return false;
  begin_fault_report();
  const auto* const address = static_cast<const char*>(fault.address);
  const std::ptrdiff_t offset = reinterpret_cast<std::intptr_t>(address) % kBlockBytes;
  const char* const block = address - offset;
  const State state = state_at(offset_of(block)).load(std::memory_order_relaxed);
  if (state == State::kNever) {
    report_wild_access(fault);
    return true;
  }
  TextWriter sentence;
  say_access(sentence, state == State::kLive ? "overflow" : "use after free", block, 0,
             verb_of(fault), offset);
  print_about(address, sentence.view());
  CallSite::of_fault(fault).print("accessed");
  return true;
}

void EmptyBlocks::expect_live(const void* p, const char* action) noexcept {
  const std::size_t offset = offset_of(p);
  const State state = state_at(offset).load(std::memory_order_relaxed);
  const bool is_aligned = offset % kBlockBytes == 0;
  if (state != State::kLive || !is_aligned)
    die_of_no_block(p, is_aligned, state == State::kFreed, action);
}

}  // namespace strata
