// How a list gets back what its spans hold in vain.
//
// A bin hands out what was freed last. A program that frees two objects of a class for each that it
// allocates keeps every other object of every span, since its bins never run dry and so never come
// to the fullest span; and as long as it frees and allocates by turns, every span stays as empty as
// it is. So while a list compacts, its spans are homeward: the page map sends what is freed of them
// to a bin that malloc never pops from, and from there it goes to its span. The bins of the class
// run dry, and what they get comes from the fullest spans; those that are nearly empty become empty
// as their objects are replaced. The hot path is what it was.
//
// Full spans become homeward when the first of their objects is back: as long as they are full, it
// makes no difference.

#include <algorithm>

#include "central/central_list.h"

namespace strata {
namespace {

// Chosen: it begins where a fourth of the objects are free, and ends where an eighth are.
constexpr std::size_t kBeginShare = 4;
constexpr std::size_t kEndShare = 8;

}  // namespace

/// Free objects of spans that have others.
std::size_t CentralList::free_in_use() const noexcept {
  return free_objects() - kept_spans() * objects_per_span_;
}

bool CentralList::look(std::size_t worth_bytes) noexcept {
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class_);
  // Free objects that are larger leave holes.
  if (Span::tracks_fresh(object_bytes) || !spans_.has_homeward()) return false;
  if (free_objects() * object_bytes < worth_bytes && !is_compacting()) return false;
  LockGuard guard(lock_);
  const std::size_t free = free_in_use();
  const std::size_t least = std::min(least_free_, free);
  const std::size_t objects = (span_count_ - kept_spans()) * objects_per_span_;
  const bool is_in_use = free_objects() != seen_free_;
  least_free_ = free;
  seen_free_ = free_objects();
  if (is_compacting()) {
    if (free * kEndShare < objects || free * object_bytes < worth_bytes / 2) compact(false);
  } else if (least * object_bytes >= worth_bytes && least * kBeginShare >= objects) {
    compact(true);
  }
  return is_in_use && (is_compacting() || free * object_bytes >= worth_bytes);
}

void CentralList::compact(bool is_on) noexcept {
  is_compacting_.store(is_on, std::memory_order_relaxed);
  for (IntrusiveList<Span>& spans : by_free_) {
    for (Span* span = spans.front(); span != nullptr; span = spans.next(*span)) follow(*span);
  }
}

/// The span becomes homeward, or no longer is, as the list does.
void CentralList::follow(Span& span) noexcept {
  if (span.is_homeward != is_compacting()) spans_.set_homeward(span, is_compacting());
}

}  // namespace strata
