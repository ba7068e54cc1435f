#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "os/page_source.h"

namespace strata::os {

/// A page source for tests. Its memory is real, but it counts every call and can refuse it. It
/// remembers every range, so a call about memory that was never mapped fails the test on the spot.
/// It unmaps what is still mapped at the end; a test that expects nothing left says so with
/// EXPECT_EQ(pages.mapped_bytes(), 0).
///
///   FakePageSource pages;
///   PageHeap heap(pages);                   // declared after it, so that it is destroyed first
///   pages.refuse_call(3);                   // the third call from here on, and only that one
///
/// Fallible calls are map, map_at, map_aligned, decommit, remap, reserve, commit and protect. Only
/// these are refused, and the n of refuse_call() counts only these. To refuse at every point in
/// turn, raise n until a run ends with refused_calls() == 0.
/// \threads  Any number at once; one mutex.
class FakePageSource : public PageSource {
 public:
  enum Call {
    kMap,
    kMapAt,
    kMapAligned,
    kUnmap,
    kDecommit,
    kAdviseHuge,
    kAdviseSmall,
    kTouch,
    kRemap,
    kReserve,
    kCommit,
    kProtect,
    kCalls
  };

  FakePageSource() = default;
  ~FakePageSource() {
    for (const auto& [start, bytes] : ranges_) kernel_pages().unmap(pointer(start), bytes);
  }

  // --- what the test arranges ----------------------------------------------------------------

  /// Refuses `count` fallible calls, from the n-th from now on (1 is the next one).
  void refuse_call(std::size_t n, std::size_t count = 1) {
    std::lock_guard guard(mutex_);
    accepted_before_refusal_ = n - 1;
    refusals_left_ = count;
    refused_ = 0;
  }
  void refuse_from_call(std::size_t n) { refuse_call(n, kEver); }
  void refuse_nothing() { refuse_call(1, 0); }

  /// While this is set, unmap() only decommits, as at vm.max_map_count.
  void refuse_unmaps(bool refuse) {
    std::lock_guard guard(mutex_);
    refuses_unmaps_ = refuse;
  }

  /// While this is set, decommit() fails, as for locked pages.
  void refuse_decommits(bool refuse) {
    std::lock_guard guard(mutex_);
    refuses_decommits_ = refuse;
  }

  /// From now on decommit() of a range with this address fails, as if its page were locked.
  void refuse_decommits_with(const void* address) {
    std::lock_guard guard(mutex_);
    locked_.insert(number(address));
  }

  /// From now on the answer of is_mostly_touched().
  void say_touched(bool is_touched) { is_touched_ = is_touched; }
  /// From now on the first touch of a page takes so long.
  void make_touches_take(std::uint64_t ns) {
    std::lock_guard guard(mutex_);
    touch_ns_ = ns;
  }

  /// Refuses calls that would raise mapped_bytes() above this, as RLIMIT_AS does.
  void limit_mapped_bytes(std::size_t bytes) {
    std::lock_guard guard(mutex_);
    limit_ = bytes;
  }

  // --- what the test asks --------------------------------------------------------------------

  std::size_t calls(Call call) const { return locked(calls_[call]); }
  std::size_t fallible_calls() const {
    std::lock_guard guard(mutex_);
    return calls_[kMap] + calls_[kMapAt] + calls_[kMapAligned] + calls_[kDecommit] +
           calls_[kRemap] + calls_[kReserve] + calls_[kCommit] + calls_[kProtect];
  }
  /// Calls refused since the last refuse_…() call, by that or by the limit.
  std::size_t refused_calls() const { return locked(refused_); }
  std::size_t mapped_bytes() const { return locked(mapped_); }
  std::size_t peak_mapped_bytes() const { return locked(peak_); }
  /// The sum over all successful decommit() calls.
  std::size_t decommitted_bytes() const { return locked(decommitted_); }
  /// Whether every byte of the range is now mapped by this source.
  bool is_mapped(const void* address, std::size_t bytes) const {
    std::lock_guard guard(mutex_);
    return covers(address, bytes);
  }

  /// The lowest mapped address.
  /// \pre  mapped_bytes() is not 0
  const void* first_mapped() const {
    std::lock_guard guard(mutex_);
    return pointer(ranges_.begin()->first);
  }

  // --- what the code under test calls --------------------------------------------------------

  void* map(std::size_t bytes) noexcept override {
    return map_with(kMap, bytes, [&] { return kernel_pages().map(bytes); });
  }
  void* map_apart(std::size_t bytes) noexcept override {
    return map_with(kMap, bytes, [&] { return kernel_pages().map_apart(bytes); });
  }
  MapAt map_at(void* address, std::size_t bytes) noexcept override {
    MapAt answer = MapAt::kNoMemory;
    map_with(kMapAt, bytes, [&] {
      answer = kernel_pages().map_at(address, bytes);
      return answer == MapAt::kMapped ? address : nullptr;
    });
    return answer;
  }
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    EXPECT_TRUE(alignment != 0 && (alignment & (alignment - 1)) == 0)
        << "map_aligned: " << alignment;
    return map_with(kMapAligned, bytes,
                    [&] { return kernel_pages().map_aligned(bytes, alignment); });
  }

  bool unmap(void* address, std::size_t bytes) noexcept override {
    return unmap_with("unmap", address, bytes,
                      [&] { return kernel_pages().unmap(address, bytes); });
  }
  bool unmap_apart(void* address, std::size_t bytes) noexcept override {
    return unmap_with("unmap_apart", address, bytes,
                      [&] { return kernel_pages().unmap_apart(address, bytes); });
  }

  bool decommit(void* address, std::size_t bytes) noexcept override {
    std::lock_guard guard(mutex_);
    if (!begin_call_about(kDecommit, "decommit", address, bytes) || is_refused(0)) return false;
    if (refuses_decommits_) return false;
    const auto locked = locked_.lower_bound(number(address));
    if (locked != locked_.end() && *locked - number(address) < bytes) return false;
    if (!kernel_pages().decommit(address, bytes)) return false;
    decommitted_ += bytes;
    return true;
  }

  void advise_huge(void* address, std::size_t bytes) noexcept override {
    std::lock_guard guard(mutex_);
    if (!begin_call_about(kAdviseHuge, "advise_huge", address, bytes)) return;
    kernel_pages().advise_huge(address, bytes);
  }
  void advise_small(void* address, std::size_t bytes) noexcept override {
    std::lock_guard guard(mutex_);
    if (!begin_call_about(kAdviseSmall, "advise_small", address, bytes)) return;
    kernel_pages().advise_small(address, bytes);
  }
  bool is_mostly_touched(const void*, std::size_t) noexcept override { return is_touched_; }
  std::uint64_t touch(void* address) noexcept override {
    std::lock_guard guard(mutex_);
    if (!begin_call_about(kTouch, "touch", address, page_bytes())) return 0;
    kernel_pages().touch(address);
    return touch_ns_;
  }

  void* remap(void* address, std::size_t old_bytes, std::size_t new_bytes) noexcept override {
    std::lock_guard guard(mutex_);
    if (!begin_call_about(kRemap, "remap", address, old_bytes)) return nullptr;
    if (!is_whole_pages("remap", new_bytes)) return nullptr;
    if (is_refused(new_bytes > old_bytes ? new_bytes - old_bytes : 0)) return nullptr;
    void* moved = kernel_pages().remap(address, old_bytes, new_bytes);
    if (moved == nullptr) return nullptr;
    forget(address, old_bytes);
    remember(moved, new_bytes);
    return moved;
  }

  void* reserve(std::size_t bytes) noexcept override {
    return map_with(kReserve, bytes, [&] { return kernel_pages().reserve(bytes); });
  }
  void* reserve_readable(std::size_t bytes) noexcept override {
    return map_with(kReserve, bytes, [&] { return kernel_pages().reserve_readable(bytes); });
  }
  bool commit(void* address, std::size_t bytes) noexcept override {
    std::lock_guard guard(mutex_);
    return begin_call_about(kCommit, "commit", address, bytes) && !is_refused(0) &&
           kernel_pages().commit(address, bytes);
  }
  bool protect(void* address, std::size_t bytes) noexcept override {
    std::lock_guard guard(mutex_);
    return begin_call_about(kProtect, "protect", address, bytes) && !is_refused(0) &&
           kernel_pages().protect(address, bytes);
  }

 private:
  static constexpr std::size_t kEver = std::numeric_limits<std::size_t>::max();

  static std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
  static void* pointer(std::uintptr_t p) { return reinterpret_cast<void*>(p); }

  template <typename T>
  T locked(const T& field) const {
    std::lock_guard guard(mutex_);
    return field;
  }

  template <typename Mapper>
  void* map_with(Call call, std::size_t bytes, Mapper mapper) {
    std::lock_guard guard(mutex_);
    ++calls_[call];
    if (!is_whole_pages("map", bytes) || is_refused(bytes)) return nullptr;
    void* p = mapper();
    if (p != nullptr) remember(p, bytes);
    return p;
  }

  template <typename Unmapper>
  bool unmap_with(const char* name, void* address, std::size_t bytes, Unmapper unmapper) {
    std::lock_guard guard(mutex_);
    if (!begin_call_about(kUnmap, name, address, bytes)) return false;
    if (refuses_unmaps_) {
      kernel_pages().decommit(address, bytes);
      return false;
    }
    forget(address, bytes);
    return unmapper();
  }

  /// Counts the call. Fails the test and returns false if the call breaks the contract of
  /// PageSource.
  bool begin_call_about(Call call, const char* name, const void* address, std::size_t bytes) {
    ++calls_[call];
    if (!is_whole_pages(name, bytes)) return false;
    if (number(address) % page_bytes() == 0 && covers(address, bytes)) return true;
    ADD_FAILURE() << name << '(' << address << ", " << bytes
                  << "): not whole pages that this source has mapped";
    return false;
  }

  static bool is_whole_pages(const char* name, std::size_t bytes) {
    if (bytes != 0 && bytes % page_bytes() == 0) return true;
    ADD_FAILURE() << name << ": " << bytes << " bytes are not whole pages";
    return false;
  }

  bool is_refused(std::size_t more_bytes) {
    bool refused = more_bytes > limit_ || mapped_ > limit_ - more_bytes;
    if (refusals_left_ != 0) {
      if (accepted_before_refusal_ != 0) {
        --accepted_before_refusal_;
      } else {
        if (refusals_left_ != kEver) --refusals_left_;
        refused = true;
      }
    }
    refused_ += refused ? 1 : 0;
    return refused;
  }

  bool covers(const void* address, std::size_t bytes) const {
    auto range = ranges_.upper_bound(number(address));
    if (range == ranges_.begin()) return false;
    --range;
    const std::uintptr_t offset = number(address) - range->first;
    return offset < range->second && bytes <= range->second - offset;
  }

  /// Merges neighbours, so that a call may span ranges that were mapped one after the other.
  void remember(void* address, std::size_t bytes) {
    mapped_ += bytes;
    peak_ = std::max(peak_, mapped_);
    auto range = ranges_.emplace(number(address), bytes).first;
    if (auto above = std::next(range);
        above != ranges_.end() && range->first + range->second == above->first) {
      range->second += above->second;
      ranges_.erase(above);
    }
    if (range == ranges_.begin()) return;
    if (auto below = std::prev(range); below->first + below->second == range->first) {
      below->second += range->second;
      ranges_.erase(range);
    }
  }

  void forget(const void* address, std::size_t bytes) {
    mapped_ -= bytes;
    auto range = std::prev(ranges_.upper_bound(number(address)));
    const std::uintptr_t end = range->first + range->second;
    range->second = number(address) - range->first;
    if (range->second == 0) ranges_.erase(range);
    if (number(address) + bytes != end) {
      ranges_.emplace(number(address) + bytes, end - number(address) - bytes);
    }
  }

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> ranges_;  // start → bytes, never touching each other
  std::set<std::uintptr_t> locked_;
  std::array<std::size_t, kCalls> calls_{};
  std::uint64_t touch_ns_ = 0;
  bool is_touched_ = true;
  bool refuses_unmaps_ = false;
  bool refuses_decommits_ = false;
  std::size_t accepted_before_refusal_ = 0;
  std::size_t refusals_left_ = 0;
  std::size_t refused_ = 0;
  std::size_t limit_ = kEver;
  std::size_t mapped_ = 0;
  std::size_t peak_ = 0;
  std::size_t decommitted_ = 0;
};

}  // namespace strata::os
