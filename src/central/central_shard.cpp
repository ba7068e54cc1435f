#include "central/central_shard.h"

namespace strata {

CentralList::Claimed CentralShard::claim(unsigned size_class, void** end,
                                         std::size_t count) noexcept {
  TransferCache& transfer = transfers_[size_class];
  // A hint suffices: what comes a moment later is the next claim's.
  if (transfer.size() != 0) {
    const std::size_t taken = transfer.remove(end, count);
    if (taken != 0) return {taken, false};
  }
  return lists_[size_class].claim(end, count);
}

std::size_t CentralShard::release(unsigned size_class, void** objects, std::size_t count) noexcept {
  TransferCache& transfer = transfers_[size_class];
  const std::size_t taken = transfer.is_full() ? 0 : transfer.insert(objects, count);
  return taken < count ? lists_[size_class].release(objects, count - taken) : 0;
}

std::size_t CentralShard::transfer_bytes() const noexcept {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c)
    bytes += transfers_[c].size() * SizeClassMap::bytes_of(c);
  return bytes;
}

std::size_t CentralShard::pending_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const CentralList& list : lists_) bytes += list.pending_bytes();
  return bytes;
}

void CentralShard::check_invariants() noexcept {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) lists_[c].check_invariants();
}

}  // namespace strata
