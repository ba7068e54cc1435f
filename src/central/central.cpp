#include "central/central.h"

#include <algorithm>
#include <iterator>

namespace strata {

std::size_t Central::claim(unsigned size_class, void** end, std::size_t count) noexcept {
  const std::size_t ready = transfers_[size_class].remove(end, count);
  if (ready != 0) {
    add_ready(size_class, -static_cast<std::ptrdiff_t>(ready));
    return ready;
  }
  return lists_[size_class].claim(end, count);
}

void Central::release(unsigned size_class, void* const* objects, std::size_t count) noexcept {
  const std::size_t taken = transfers_[size_class].insert(objects, count);
  if (taken != 0) add_ready(size_class, static_cast<std::ptrdiff_t>(taken));
  if (taken < count) lists_[size_class].release(objects, count - taken);
}

std::size_t Central::release_unneeded() noexcept {
  std::size_t returned = 0;
  void* batch[64];
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    while (const std::size_t count = transfers_[c].take_unneeded(batch, std::size(batch))) {
      add_ready(c, -static_cast<std::ptrdiff_t>(count));
      lists_[c].release(batch, count);
    }
    returned += lists_[c].release_holes(CentralList::Spans::kQuiet);
  }
  return returned;
}

std::size_t Central::release_all() noexcept {
  flush_ready();
  std::size_t returned = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c)
    returned += lists_[c].release_holes(CentralList::Spans::kAll);
  return returned;
}

void Central::flush_ready(unsigned end_class) noexcept {
  void* batch[64];
  void** const end = batch + std::size(batch);
  for (unsigned c = 1; c < end_class; ++c) {
    // No more than was there: others may go on filling it.
    for (std::size_t left = transfers_[c].size(); left != 0;) {
      const std::size_t count = transfers_[c].remove(end, std::min(left, std::size(batch)));
      if (count == 0) break;
      add_ready(c, -static_cast<std::ptrdiff_t>(count));
      lists_[c].release(end - count, count);
      left -= count;
    }
  }
}

void Central::check_invariants() noexcept {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) lists_[c].check_invariants();
}

void Central::for_each_lock(LockVisitor visit) noexcept {
  for (CentralList& list : lists_) visit(list.lock());
  for (TransferCache& transfer : transfers_) visit(transfer.lock());
}

}  // namespace strata
