#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::cli {

/// The OS pages that hold live objects, and how full they are.
class AddressMap {
 public:
  struct Page {
    std::uint64_t number;  ///< the page's number in the address space
    double fullness;       ///< 0 to 1, by requested bytes
  };

  /// \param allocator  the allocator of these addresses
  /// \param file       pairs of address and size, as written by a replay
  /// \errors  std::runtime_error if it cannot be read.
  AddressMap(std::string allocator, const std::string& file);

  const std::string& allocator() const noexcept { return allocator_; }
  const std::vector<Page>& pages() const noexcept { return pages_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// The size of all pages with objects, divided by the size of the objects.
  double page_bytes_per_live() const noexcept;
  /// The number of pages that are used to less than this share.
  std::size_t pages_below(double fullness) const noexcept;

  static constexpr std::uint64_t kPageBytes = 4096;

 private:
  std::string allocator_;
  std::vector<Page> pages_;
  std::uint64_t bytes_ = 0;
};

}  // namespace strata::cli
