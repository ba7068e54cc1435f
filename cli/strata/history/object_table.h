#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace strata::cli {

/// A value per live object of a trace, indexed by object number. Numbers only grow, so pages of the
/// table come and go: only pages with live objects take memory.
template <typename T>
class ObjectTable {
 public:
  /// \pre  numbers ascend
  T& add(std::uint64_t object) {
    const std::size_t page = object / kPageObjects;
    if (pages_.size() <= page) pages_.resize(page + 1);
    if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
    ++pages_[page]->live;
    newest_ = page;
    return pages_[page]->items[object % kPageObjects];
  }

  /// \pre      added and not removed
  /// \returns  The removed value.
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
