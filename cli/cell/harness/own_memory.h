#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace strata::cell {

/// Resident bytes of the harness's tables, in whole OS pages. Cell moves the count to the board, so
/// that `strata` can subtract it from the process's resident set.
/// \threads  Any; the pointer changes only while there is one thread and no table.
inline std::atomic<std::uint64_t> table_bytes_without_board{0};
inline std::atomic<std::uint64_t>* table_bytes = &table_bytes_without_board;

enum class Owner {
  kHarness,    ///< a table: resident from the start, not counted as the contender's memory
  kContender,  ///< the storage of a pool: resident as it is touched, counted
  kCopies,     ///< a page or two, which copies of this process share; counted
};

/// Zeroed pages from the kernel, separate from the measured allocator and its blocks. A scenario
/// keeps every table as large as its load in an OwnMemory.
template <typename T, Owner kOwner = Owner::kHarness>
class OwnMemory {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>,
                "its elements are plain data and start as zero bytes");

 public:
  OwnMemory() = default;
  /// Faults in the pages of a table at once, so that the load is not charged for these faults.
  /// Their number is what the table adds to the resident set.
  /// \errors  std::bad_alloc.
  explicit OwnMemory(std::size_t count) : count_(count) {
    if (count == 0) return;
    constexpr int kPopulate = kOwner == Owner::kHarness ? MAP_POPULATE : 0;
    constexpr int kSharing = kOwner == Owner::kCopies ? MAP_SHARED : MAP_PRIVATE;
    void* pages = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                         kSharing | MAP_ANONYMOUS | MAP_NORESERVE | kPopulate, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(pages);
    if (kOwner == Owner::kHarness) {
      table_bytes->fetch_add(mapped_bytes(), std::memory_order_relaxed);
    }
  }
  ~OwnMemory() {
    if (data_ == nullptr) return;
    ::munmap(data_, count_ * sizeof(T));
    if (kOwner == Owner::kHarness) {
      table_bytes->fetch_sub(mapped_bytes(), std::memory_order_relaxed);
    }
  }
  OwnMemory(OwnMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  OwnMemory& operator=(OwnMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }
  T* data() noexcept { return data_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + count_; }
  std::size_t size() const noexcept { return count_; }

 private:
  std::uint64_t mapped_bytes() const noexcept {
    const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return (count_ * sizeof(T) + page_bytes - 1) / page_bytes * page_bytes;
  }

  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace strata::cell
