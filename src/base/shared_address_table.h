#pragma once

#include <atomic>
#include <cstddef>

#include "base/address_table.h"
#include "base/lock.h"
#include "base/thread_annotations.h"

namespace strata {

/// An AddressTable with a lock of its own.
/// \threads  Any number at once; the lock is not taken while the table is empty.
template <typename Value>
class SharedAddressTable {
 public:
  constexpr SharedAddressTable(MetadataArena& metadata, LockRank rank) noexcept
      : lock_(rank), table_(metadata) {}
  SharedAddressTable(const SharedAddressTable&) = delete;
  SharedAddressTable& operator=(const SharedAddressTable&) = delete;

  /// \pre      `p` has no value.
  /// \returns  False when out of memory.
  bool insert(const void* p, const Value& value) noexcept {
    LockGuard guard(lock_);
    const bool is_inserted = table_.insert(p, value);
    size_.store(table_.size(), std::memory_order_relaxed);
    return is_inserted;
  }

  /// \returns  False if `p` has no value; otherwise `out` is that value.
  bool find(const void* p, Value& out) noexcept {
    if (size() == 0) return false;
    LockGuard guard(lock_);
    const Value* const value = table_.find(p);
    if (value != nullptr) out = *value;
    return value != nullptr;
  }

  /// \returns  The same; `p` has no value any more.
  bool remove(const void* p, Value& out) noexcept {
    if (size() == 0) return false;
    LockGuard guard(lock_);
    const bool is_removed = table_.remove(p, out);
    size_.store(table_.size(), std::memory_order_relaxed);
    return is_removed;
  }

  /// Removes all entries.
  void forget_all() noexcept {
    LockGuard guard(lock_);
    table_.forget_all();
    size_.store(0, std::memory_order_relaxed);
  }

  /// Calls visit(address, value) for every address, with the lock held.
  template <typename Visit>
  void for_each(Visit visit) noexcept {
    LockGuard guard(lock_);
    table_.for_each(visit);
  }

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

  void check_invariants() noexcept {
    LockGuard guard(lock_);
    table_.check_invariants();
  }

 private:
  Lock lock_;
  AddressTable<Value> table_ STRATA_GUARDED_BY(lock_);
  // Written under lock_. relaxed: a thread gets an address only after it was inserted.
  std::atomic<std::size_t> size_{0};
};

}  // namespace strata
