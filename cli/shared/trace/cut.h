#pragma once

#include <cstdint>

#include "shared/trace/reader.h"
#include "shared/trace/writer.h"

namespace strata::trace {

/// Copies the events from `from_ns` until before `until_ns` to a new trace. Its time starts at 0,
/// objects live before it are unknown, and it holds only the stacks it needs. Events dropped at its
/// borders count as dropped in it.
/// \errors  TraceError. If the writer fails, out.has_failed() is true.
void cut(Reader& in, Writer& out, std::uint64_t from_ns, std::uint64_t until_ns);

}  // namespace strata::trace
