#pragma once

#include <span>
#include <string_view>

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

}  // namespace strata::cli
