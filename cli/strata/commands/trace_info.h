#pragma once

#include <string>

#include "shared/trace/reader.h"

namespace strata::cli {

/// What a person wants to know of a trace first, some lines. Reads it to its end.
/// \errors  TraceError
std::string trace_info(trace::Reader& trace);

}  // namespace strata::cli
