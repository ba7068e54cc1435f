// How a list gets back what its spans hold in vain.
//
// A bin hands out what was freed last. A program that frees two objects of a class for each that it
// allocates keeps every other object of every span, since its bins never run dry and so never come
// to the fullest span; and as long as it frees and allocates by turns, every span stays as empty as
// it is. So while a list compacts, its spans are homeward: the page map sends what is freed of them
// to a bin that malloc never pops from, and from there it goes to its span. The bins of the class
// run dry, and what they get comes from the fullest spans; those that are nearly empty become empty
// as their objects are replaced. The hot path is what it was.

#include "central/central_list.h"

namespace strata {
namespace {

// Chosen: it begins where a fourth of the objects are free, and ends where an eighth are.
constexpr std::size_t kBeginShare = 4;
constexpr std::size_t kEndShare = 8;
// Chosen: it begins when so much has come back meanwhile, a share of the objects, or a round of the
// scavenger has passed. What a batch leaves free for a moment the transfer cache has.
constexpr std::size_t kReturnedShare = 16;

}  // namespace

/// Free objects of spans that have others.
std::size_t CentralList::free_in_use() const noexcept {
  return free_objects() - kept_spans() * objects_per_span_;
}

/// All objects of these spans.
std::size_t CentralList::objects_in_use() const noexcept {
  return (span_count_ - kept_spans()) * objects_per_span_;
}

bool CentralList::has_much_free() const noexcept {
  const std::size_t free = free_in_use();
  if (free < worth_compacting(size_class_)) return false;
  if (free * kBeginShare < objects_in_use()) return false;
  return free * SizeClassMap::bytes_of(size_class_) >= spans_.used_bytes() / kWasteShare;
}

bool CentralList::has_little_free() const noexcept {
  const std::size_t free = free_in_use();
  return free * kEndShare < objects_in_use() || free < worth_compacting(size_class_) / 2;
}

/// Begins to compact, or ends it, after so many objects came back.
void CentralList::count_returned(std::size_t count) noexcept {
  if (is_compacting()) {
    if (has_little_free()) compact(false);
  } else if (!has_much_free()) {
    returned_ = 0;
  } else {
    returned_ += count;
    if (returned_ * kReturnedShare >= objects_in_use()) compact(true);
  }
}

void CentralList::look() noexcept {
  LockGuard guard(lock_);
  const bool has_much = has_much_free();
  if (is_compacting()) {
    if (has_little_free()) compact(false);
  } else if (has_much && had_much_free_) {
    compact(true);
  }
  had_much_free_ = has_much;
}

void CentralList::compact(bool is_on) noexcept {
  if (!spans_.has_homeward()) return;
  is_compacting_.store(is_on, std::memory_order_relaxed);
  watched_from_ = is_on ? 0 : worth_compacting(size_class_);
  returned_ = 0;
  for (const IntrusiveList<Span>& spans : by_free_) follow_all(spans);
  follow_all(kept_);
}

void CentralList::follow_all(const IntrusiveList<Span>& spans) noexcept {
  for (Span* span = spans.front(); span != nullptr; span = spans.next(*span)) follow(*span);
}

}  // namespace strata
