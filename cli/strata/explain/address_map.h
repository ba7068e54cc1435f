#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::cli {

/// Which OS pages hold live objects, and how full they are.
class AddressMap {
 public:
  struct Page {
    std::uint64_t number;  ///< of the page in the address space
    double fullness;       ///< of 0 to 1, by the bytes that the program asked for
  };

  /// \param allocator  whose addresses they are
  /// \param file  pairs of address and size, as a replay writes them
  /// \errors  std::runtime_error if it cannot be read.
  AddressMap(std::string allocator, const std::string& file);

  const std::string& allocator() const noexcept { return allocator_; }
  const std::vector<Page>& pages() const noexcept { return pages_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// What the pages with objects in them add up to, over the objects.
  double page_bytes_per_live() const noexcept;
  /// Pages of which less than this share is in use.
  std::size_t pages_below(double fullness) const noexcept;

  static constexpr std::uint64_t kPageBytes = 4096;

 private:
  std::string allocator_;
  std::vector<Page> pages_;
  std::uint64_t bytes_ = 0;
};

}  // namespace strata::cli
