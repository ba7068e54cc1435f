#pragma once

#include <strata/heap.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace strata {

/// A page source over one static buffer, which can refuse. It remembers what it handed out, so a
/// range that comes back changed fails the test on the spot.
/// \threads  any number at once
class BufferPages {
 public:
  static constexpr std::size_t kUnitBytes = std::size_t{2} << 20;
  static constexpr std::size_t kUnits = 32;

  enum class Purges : bool { kNo, kYes };
  explicit BufferPages(Purges purges = Purges::kYes) {
    source_.context = this;
    source_.map = [](void* self, std::size_t bytes, std::size_t alignment) {
      return static_cast<BufferPages*>(self)->map(bytes, alignment);
    };
    source_.unmap = [](void* self, void* address, std::size_t bytes) {
      static_cast<BufferPages*>(self)->unmap(address, bytes);
    };
    if (purges == Purges::kNo) return;
    source_.purge = [](void* self, void* address, std::size_t bytes) {
      return static_cast<BufferPages*>(self)->purge(address, bytes);
    };
  }
  BufferPages(const BufferPages&) = delete;
  BufferPages& operator=(const BufferPages&) = delete;
  ~BufferPages() { EXPECT_TRUE(given_.empty()) << "a heap kept a range"; }

  const Heap::PageSource* source() const { return &source_; }

  /// From now on the n-th call of map() is refused, and only that one.
  void refuse_call(std::size_t n) {
    std::lock_guard guard(mutex_);
    until_refusal_ = n;
  }
  /// Whether that call has come.
  bool has_refused() const { return until_refusal_ == 0; }
  /// Whether all calls of purge() are refused from now on.
  void refuse_purges(bool are_refused) {
    std::lock_guard guard(mutex_);
    refuses_purges_ = are_refused;
  }

  std::size_t given_bytes() const {
    std::lock_guard guard(mutex_);
    std::size_t bytes = 0;
    for (const auto& [start, of_range] : given_) bytes += of_range;
    return bytes;
  }
  std::size_t purged_bytes() const { return purged_; }
  static bool holds(const void* p) {
    return static_cast<std::size_t>(static_cast<const char*>(p) - begin()) < kUnits * kUnitBytes;
  }

 private:
  static char* begin() {
    static char buffer[(kUnits + 1) * kUnitBytes];
    return buffer + (-reinterpret_cast<std::uintptr_t>(buffer) & (kUnitBytes - 1));
  }

  void* map(std::size_t bytes, std::size_t alignment) {
    std::lock_guard guard(mutex_);
    if (until_refusal_ != 0 && --until_refusal_ == 0) return nullptr;
    // Finds the first gap that is long enough.
    std::size_t start = 0;
    for (const auto& [taken, of_range] : given_) {
      if (start + bytes <= taken) break;
      start = (taken + of_range + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
    }
    if (alignment > kUnitBytes || start + bytes > kUnits * kUnitBytes) return nullptr;
    given_[start] = bytes;
    return begin() + start;
  }

  void unmap(void* address, std::size_t bytes) {
    std::lock_guard guard(mutex_);
    const auto range = given_.find(static_cast<std::size_t>(static_cast<char*>(address) - begin()));
    ASSERT_TRUE(range != given_.end() && range->second == bytes) << "it was given otherwise";
    std::memset(address, 0, bytes);
    given_.erase(range);
  }

  bool purge(void* address, std::size_t bytes) {
    std::lock_guard guard(mutex_);
    EXPECT_TRUE(holds(address));
    if (refuses_purges_) return false;
    std::memset(address, 0, bytes);
    purged_ += bytes;
    return true;
  }

  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> given_;  // bytes by place in the buffer
  std::size_t until_refusal_ = 0;
  std::size_t purged_ = 0;
  bool refuses_purges_ = false;
  Heap::PageSource source_;
};

}  // namespace strata
