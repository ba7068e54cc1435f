#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// Another allocator, compared if the machine has it. Add new ones in peers.cpp.
struct Peer {
  std::string_view name;
  /// Its library's names without a version, preferred one first; "libx.so" also matches
  /// "libx.so.2.0".
  std::string_view libraries[2];
  std::string_view debian_package;
  std::string_view sentence;
};

std::span<const Peer> peers();

/// \returns  The path of its library in one of the folders, or empty.
std::string find_peer(const Peer& peer, const std::vector<std::string>& folders);

}  // namespace strata::cli
