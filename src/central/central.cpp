#include "central/central.h"

namespace strata {

std::size_t Central::claim(unsigned size_class, void** end, std::size_t count) noexcept {
  const std::size_t ready = transfers_[size_class].remove(end, count);
  if (ready != 0) return ready;
  return lists_[size_class].claim(end, count);
}

void Central::release(unsigned size_class, void* const* objects, std::size_t count) noexcept {
  const std::size_t taken = transfers_[size_class].insert(objects, count);
  if (taken < count) lists_[size_class].release(objects, count - taken);
}

std::size_t Central::release_unneeded() noexcept {
  std::size_t returned = 0;
  void* batch[64];
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    while (const std::size_t count = transfers_[c].take_unneeded(batch, std::size(batch))) {
      lists_[c].release(batch, count);
    }
    returned += lists_[c].release_unneeded();
  }
  return returned;
}

void Central::check_invariants() noexcept {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) lists_[c].check_invariants();
}

void Central::lock_all() noexcept {
  for (CentralList& list : lists_) list.lock().lock();
  for (TransferCache& transfer : transfers_) transfer.lock().lock();
}

void Central::unlock_all() noexcept {
  for (TransferCache& transfer : transfers_) transfer.lock().unlock();
  for (CentralList& list : lists_) list.lock().unlock();
}

void Central::reset_locks_after_fork() noexcept {
  for (TransferCache& transfer : transfers_) transfer.lock().reset_after_fork();
  for (CentralList& list : lists_) list.lock().reset_after_fork();
}

}  // namespace strata
