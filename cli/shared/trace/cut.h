#pragma once

#include <cstdint>

#include "shared/trace/reader.h"
#include "shared/trace/writer.h"

namespace strata::trace {

/// Writes the part of a trace from `from_ns` on, and before `until_ns`: its time begins anew, what
/// was live before is unknown, and only stacks that it needs are in it. What was dropped at its
/// borders counts as dropped in it.
/// \errors  TraceError. The writer's own failure shows in has_failed().
void cut(Reader& in, Writer& out, std::uint64_t from_ns, std::uint64_t until_ns);

}  // namespace strata::trace
