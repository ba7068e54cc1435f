#include "guard/guard_pool.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "base/fatal.h"
#include "guard/fault_report.h"
#include "guard/pattern.h"
#include "size_class/size_class_map.h"

namespace strata {
bool GuardPool::start(const Size& size) noexcept {
  const std::size_t in_slot = std::max(size.slot_bytes, kLeastSlotPages * os::page_bytes());
  const std::size_t in_guard = std::max(size.guard_bytes, os::page_bytes());
  const std::size_t bytes = size.slots * (in_slot + in_guard) + in_guard;
  LockGuard guard(lock_);
  if (is_started()) return true;  // another thread was first
  void* const start = pages_.reserve(bytes);
  if (start == nullptr) return false;
  slots_ = static_cast<Slot*>(metadata_.allocate(size.slots * (sizeof(Slot) + sizeof *waiting_)));
  if (slots_ == nullptr) {
    pages_.unmap(start, bytes);
    return false;
  }
  waiting_ = reinterpret_cast<std::uint16_t*>(slots_ + size.slots);
  size_ = size;
  slot_bytes_.store(in_slot, std::memory_order_relaxed);
  guard_bytes_.store(in_guard, std::memory_order_relaxed);
  start_.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
  bytes_.store(bytes, std::memory_order_release);
  return true;
}

void* GuardPool::allocate(const Allocation& allocation, bool is_short) noexcept {
  const std::size_t alignment = std::max(allocation.alignment, SizeClassMap::kGrain);
  const std::size_t bytes = detail::round_up(std::max<std::size_t>(allocation.bytes, 1), alignment);
  if (allocation.bytes > slot_bytes() || bytes > slot_bytes() || alignment > os::page_bytes())
    return nullptr;
  const CallSite here = CallSite::here();
  const std::size_t accessible_bytes = detail::round_up(bytes, os::page_bytes());
  LockGuard guard(lock_);
  if (accessible_bytes > size_.most_live_bytes - live_bytes_) return nullptr;
  Slot* const slot = take_slot(is_short ? 0 : size_.least_waiting);
  if (slot == nullptr) return nullptr;
  char* const start = slot_start(static_cast<std::size_t>(slot - slots_));
  const bool at_end = uses_ % 2 != 0;
  slot->accessible_bytes = accessible_bytes;
  slot->accessible = at_end ? start + slot_bytes() - slot->accessible_bytes : start;
  slot->object = at_end ? start + slot_bytes() - bytes : start;
  slot->allocation = allocation;
  slot->allocated = here;
  slot->freed = CallSite{};
  if (!open(*slot)) {
    keep_waiting(*slot);
    return nullptr;
  }
  slot->state = State::kLive;
  ++uses_;
  live_bytes_ += slot->accessible_bytes;
  fill_surroundings(*slot);
  return slot->object;
}

void GuardPool::deallocate(void* p, const FreeCall& call) noexcept {
  const CallSite here = CallSite::here();
  LockGuard guard(lock_);
  Slot& slot = live_slot(p, "free");
  expect_agreement(call, slot);
  verify_surroundings(slot);
  retire(slot, here);
}

/// Dies if the call contradicts the allocation. Separate, since the sentence is on its stack.
[[gnu::noinline]] void GuardPool::expect_agreement(const FreeCall& call,
                                                   const Slot& slot) noexcept {
  TextWriter sentence;
  if (!contradicts(call, slot.allocation, slot.object, sentence)) return;
  print_about(slot.object, sentence.view());
  slot.allocated.print("allocated");
  CallSite::of_report().print("this call");
  die();
}

/// Turns a live object's slot into a waiting one.
void GuardPool::retire(Slot& slot, const CallSite& freed) noexcept {
  slot.freed = freed;
  live_bytes_ -= slot.accessible_bytes;
  // Where the kernel refuses, late accesses are not seen; the slot still waits.
  close(slot);
  if (slot.is_held) {
    std::memset(slot.accessible, 0, slot.accessible_bytes);
    waiting_bytes_ += slot.accessible_bytes;
  }
  keep_waiting(slot);
}

void GuardPool::verify_all() noexcept {
  LockGuard guard(lock_);
  for (std::size_t i = 0; i < used_; ++i) {
    if (slots_[i].state == State::kLive) verify_surroundings(slots_[i]);
  }
}

void GuardPool::forget_all() noexcept {
  LockGuard guard(lock_);
  for (std::size_t i = 0; i < used_; ++i) {
    if (slots_[i].state == State::kLive) retire(slots_[i], CallSite{});
  }
}

void GuardPool::discard() noexcept {
  const std::size_t bytes = bytes_.exchange(0, std::memory_order_relaxed);
  if (bytes != 0)
    pages_.unmap(reinterpret_cast<void*>(start_.load(std::memory_order_relaxed)), bytes);
}

std::size_t GuardPool::requested_bytes(const void* p, const char* action) noexcept {
  LockGuard guard(lock_);
  return live_slot(p, action).allocation.bytes;
}

bool GuardPool::explain(const os::Fault& fault) const noexcept {
  if (!owns(fault.address)) return false;
  begin_fault_report();
  const auto* const address = static_cast<const char*>(fault.address);
  const Slot* const slot = slot_around(address);
  if (slot == nullptr) {
    report_wild_access(fault);
    return true;
  }
  const char* const mistake = slot->state == State::kFreed ? "use after free"
                              : address < slot->object     ? "underflow"
                                                           : "overflow";
  TextWriter sentence;
  say_access(sentence, mistake, slot->object, slot->allocation.bytes, verb_of(fault),
             address - slot->object);
  print_about(address, sentence.view());
  CallSite::of_fault(fault).print("accessed");
  slot->allocated.print("allocated");
  if (slot->state == State::kFreed) slot->freed.print("freed");
  return true;
}

char* GuardPool::slot_start(std::size_t index) const noexcept {
  return reinterpret_cast<char*>(start_.load(std::memory_order_relaxed)) + guard_bytes() +
         index * (slot_bytes() + guard_bytes());
}

/// The slot that an address in the pool is most likely about: the one that contains it or, for a
/// guard, the neighbour whose object is nearer, live ones first. nullptr if none was used.
GuardPool::Slot* GuardPool::slot_around(const void* p) const noexcept {
  const auto* const address = static_cast<const char*>(p);
  const std::size_t offset =
      reinterpret_cast<std::uintptr_t>(p) - start_.load(std::memory_order_relaxed);
  const std::size_t stride = slot_bytes() + guard_bytes();
  const std::size_t index = offset / stride;
  Slot* const at = index < used_ ? &slots_[index] : nullptr;
  if (offset % stride >= guard_bytes() || index == 0) return at;
  Slot* const before = index - 1 < used_ ? &slots_[index - 1] : nullptr;
  if (at == nullptr || before == nullptr) return at != nullptr ? at : before;
  if (at->state != before->state) return at->state == State::kLive ? at : before;
  return at->object - address < address - before->end() ? at : before;
}

GuardPool::Slot* GuardPool::take_slot(std::size_t least_waiting) noexcept {
  if (!is_started()) return nullptr;
  if (used_ < size_.slots) return &slots_[used_++];
  if (waiting_count_ <= least_waiting) return nullptr;
  Slot& slot = slots_[waiting_[oldest_]];
  oldest_ = (oldest_ + 1) % size_.slots;
  --waiting_count_;
  if (!slot.is_open) return &slot;
  // The kernel refused to close it: the next object may need other pages of the slot.
  if (slot.is_held) waiting_bytes_ -= slot.accessible_bytes;
  close(slot);
  if (!slot.is_open) return &slot;
  if (slot.is_held) waiting_bytes_ += slot.accessible_bytes;
  keep_waiting(slot);
  return nullptr;
}

/// Makes the slot's pages accessible, if the limit and the kernel allow it. Otherwise the object is
/// served unguarded, and no refusal is counted.
bool GuardPool::open(Slot& slot) noexcept {
  if (!limit_.try_hold_unasked(slot.accessible_bytes)) return false;
  slot.is_open = pages_.commit(slot.accessible, slot.accessible_bytes);
  slot.is_held = slot.is_open;
  if (!slot.is_held) limit_.take_back(slot.accessible_bytes);
  return slot.is_open;
}

/// Makes the slot's pages inaccessible or, if the kernel refuses, at least empty; it may refuse
/// both.
void GuardPool::close(Slot& slot) noexcept {
  slot.is_open = !pages_.protect(slot.accessible, slot.accessible_bytes);
  if (slot.is_held && (!slot.is_open || pages_.decommit(slot.accessible, slot.accessible_bytes))) {
    slot.is_held = false;
    limit_.let_go(slot.accessible_bytes);
  }
}

void GuardPool::keep_waiting(Slot& slot) noexcept {
  slot.state = State::kFreed;
  waiting_[(oldest_ + waiting_count_) % size_.slots] = static_cast<std::uint16_t>(&slot - slots_);
  ++waiting_count_;
}

/// The slot whose live object starts at `p`.
GuardPool::Slot& GuardPool::live_slot(const void* p, const char* action) noexcept {
  Slot* const slot = slot_around(p);
  const bool is_start = slot != nullptr && slot->object == p;
  if (is_start && slot->state == State::kLive) return *slot;
  TextWriter sentence;
  if (is_start && std::string_view(action) == "free") {
    sentence.text("double free of ").pointer(p).text(": the object is free already");
  } else {
    sentence.text("invalid ").text(action).text(" of ").pointer(p);
    sentence.text(is_start          ? ": the object is free"
                  : slot != nullptr ? ": it points into an object, not at its start"
                                    : ": it was never allocated");
  }
  print_about(p, sentence.view());
  CallSite::of_report().print("this call");
  if (slot != nullptr) {
    slot->allocated.print("allocated");
    if (slot->state == State::kFreed) slot->freed.print("freed");
  }
  die();
}

/// Fills the accessible pages around the object.
void GuardPool::fill_surroundings(const Slot& slot) noexcept {
  const char* const end = slot.accessible + slot.accessible_bytes;
  std::memset(slot.accessible, kSlackByte, static_cast<std::size_t>(slot.object - slot.accessible));
  std::memset(slot.object + slot.allocation.bytes, kSlackByte,
              static_cast<std::size_t>(end - slot.end()));
}

void GuardPool::verify_surroundings(const Slot& slot) noexcept {
  const auto before = static_cast<std::size_t>(slot.object - slot.accessible);
  const auto behind =
      static_cast<std::size_t>(slot.accessible + slot.accessible_bytes - slot.end());
  const std::size_t change_before = find_change(slot.accessible, before, kSlackByte);
  const std::size_t change_behind = find_change(slot.end(), behind, kSlackByte);
  if (change_before == before && change_behind == behind) return;
  const bool is_underflow = change_before != before;
  TextWriter sentence;
  say_access(sentence, is_underflow ? "underflow" : "overflow", slot.object, slot.allocation.bytes,
             "wrote",
             is_underflow
                 ? static_cast<std::ptrdiff_t>(change_before) - static_cast<std::ptrdiff_t>(before)
                 : slot.end() + change_behind - slot.object);
  print_about(slot.object, sentence.view());
  slot.allocated.print("allocated");
  CallSite::of_report().print("this call");
  die();
}

GuardPool::Statistics GuardPool::statistics() noexcept {
  LockGuard guard(lock_);
  return {bytes_.load(std::memory_order_relaxed),
          used_ - waiting_count_,
          live_bytes_,
          waiting_count_,
          waiting_bytes_,
          uses_};
}

void GuardPool::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t freed = 0;
  std::size_t live_bytes = 0;
  std::size_t waiting_bytes = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.state == State::kFreed) {
      ++freed;
      if (slot.is_held) waiting_bytes += slot.accessible_bytes;
      continue;
    }
    STRATA_INVARIANT(slot.accessible >= slot_start(i) && slot.object >= slot.accessible &&
                         slot.end() <= slot.accessible + slot.accessible_bytes &&
                         slot.accessible + slot.accessible_bytes <= slot_start(i) + slot_bytes(),
                     "a guarded object stands outside its slot");
    STRATA_INVARIANT(slot.is_open && slot.is_held, "a live guarded object is inaccessible");
    live_bytes += slot.accessible_bytes;
  }
  STRATA_INVARIANT(freed == waiting_count_, "a free slot does not wait");
  STRATA_INVARIANT(live_bytes == live_bytes_ && waiting_bytes == waiting_bytes_,
                   "the pages of guarded objects are not those that are counted");
}

}  // namespace strata
