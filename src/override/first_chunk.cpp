// The malloc's first chunk of bookkeeping, in the shared library only. layout.ld puts larger
// variables behind it.

#include "base/metadata_arena.h"

namespace strata {

alignas(MetadataArena::kMinBytes) constinit char g_first_chunk[MetadataArena::kChunkBytes] = {};

}  // namespace strata
