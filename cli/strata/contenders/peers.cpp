#include "contenders/peers.h"

#include "contenders/library_search.h"

namespace strata::cli {
namespace {

constexpr Peer kPeers[] = {
    {"jemalloc", {"libjemalloc.so"}, "libjemalloc2", "FreeBSD's and Facebook's arenas"},
    {"mimalloc",
     {"libmimalloc.so"},
     "libmimalloc2.0 or libmimalloc3",
     "Microsoft's sharded free lists"},
    {"tcmalloc",
     {"libtcmalloc_minimal.so", "libtcmalloc.so"},
     "libtcmalloc-minimal4 or libtcmalloc-minimal4t64",
     "gperftools' thread caches"},
    // The proxy replaces malloc; libtbbmalloc.so alone only offers its own functions.
    {"tbbmalloc", {"libtbbmalloc_proxy.so"}, "libtbbmalloc2", "Intel's scalable allocator"},
};

}  // namespace

std::span<const Peer> peers() { return kPeers; }

std::string find_peer(const Peer& peer, const std::vector<std::string>& folders) {
  for (std::string_view library : peer.libraries) {
    std::string path = library.empty() ? std::string() : find_library(library, folders);
    if (!path.empty()) return path;
  }
  return {};
}

}  // namespace strata::cli
