#include "explain/address_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace strata::cli {

AddressMap::AddressMap(std::string allocator, const std::string& file)
    : allocator_(std::move(allocator)) {
  std::ifstream in(file, std::ios::binary);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks;
  std::uint64_t pair[2];
  while (in.read(reinterpret_cast<char*>(pair), sizeof pair)) blocks.emplace_back(pair[0], pair[1]);
  if (!in.eof()) throw std::runtime_error(fmt::format("'{}' cannot be read", file));
  std::ranges::sort(blocks);
  for (auto [address, size] : blocks) {
    bytes_ += size;
    while (size > 0) {
      const std::uint64_t page = address / kPageBytes;
      const std::uint64_t part = std::min(size, (page + 1) * kPageBytes - address);
      if (pages_.empty() || pages_.back().number != page) pages_.push_back({page, 0});
      pages_.back().fullness += static_cast<double>(part) / kPageBytes;
      address += part;
      size -= part;
    }
  }
}

double AddressMap::page_bytes_per_live() const noexcept {
  return bytes_ == 0
             ? 0
             : static_cast<double>(pages_.size() * kPageBytes) / static_cast<double>(bytes_);
}

std::size_t AddressMap::pages_below(double fullness) const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(pages_, [&](const Page& page) { return page.fullness < fullness; }));
}

}  // namespace strata::cli
