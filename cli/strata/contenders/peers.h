#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// An allocator of the field that is compared when the machine has it. A new one is a new row in
/// peers.cpp.
struct Peer {
  std::string_view name;
  /// Its library without the version, the preferred one first; "libx.so" also finds "libx.so.2.0".
  std::string_view libraries[2];
  std::string_view debian_package;
  std::string_view sentence;
};

std::span<const Peer> peers();

/// \returns  The path of its library in one of the folders, or empty.
std::string find_peer(const Peer& peer, const std::vector<std::string>& folders);

}  // namespace strata::cli
