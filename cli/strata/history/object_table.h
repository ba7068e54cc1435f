#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace strata::cli {

/// Something about each live object of a trace, by the object's number. Numbers only grow, so pages
/// of them come and go: memory is that of the pages in which anything lives.
template <typename T>
class ObjectTable {
 public:
  /// \pre  numbers come in ascending order
  T& add(std::uint64_t object) {
    const std::size_t page = object / kPageObjects;
    while (pages_.size() <= page) pages_.push_back(nullptr);
    if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
    ++pages_[page]->live;
    newest_ = page;
    return pages_[page]->items[object % kPageObjects];
  }

  /// \pre  added and not removed
  T& at(std::uint64_t object) {
    return pages_[object / kPageObjects]->items[object % kPageObjects];
  }
  const T& at(std::uint64_t object) const {
    return pages_[object / kPageObjects]->items[object % kPageObjects];
  }

  /// \returns  What was kept of it.
  T remove(std::uint64_t object) {
    const std::size_t number = object / kPageObjects;
    Page& page = *pages_[number];
    const T item = page.items[object % kPageObjects];
    if (--page.live == 0 && number != newest_) pages_[number].reset();
    return item;
  }

 private:
  static constexpr std::size_t kPageObjects = 4096;
  struct Page {
    std::array<T, kPageObjects> items;
    std::size_t live = 0;
  };
  std::vector<std::unique_ptr<Page>> pages_;
  std::size_t newest_ = 0;
};

}  // namespace strata::cli
