#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace strata::cell {

/// A table of the harness: fresh pages of the kernel, all zero, so that what a scenario keeps for
/// itself neither comes from the measured allocator nor lies between its blocks. A scenario keeps
/// everything that is as large as its load in one of these.
template <typename T>
class OwnMemory {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>,
                "its elements are plain data and start as zero bytes");

 public:
  OwnMemory() = default;
  /// \errors  std::bad_alloc.
  explicit OwnMemory(std::size_t count) : count_(count) {
    if (count == 0) return;
    void* pages = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(pages);
  }
  ~OwnMemory() {
    if (data_ != nullptr) ::munmap(data_, count_ * sizeof(T));
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

  /// Has every page now, so that its faults are not the load's.
  void touch() noexcept {
    volatile char* bytes = reinterpret_cast<char*>(data_);
    for (std::size_t at = 0; at < count_ * sizeof(T); at += 4096) bytes[at] = bytes[at];
  }

  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }
  T* data() noexcept { return data_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + count_; }
  std::size_t size() const noexcept { return count_; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace strata::cell
