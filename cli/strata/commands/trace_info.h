#pragma once

#include <string>

#include "shared/trace/reader.h"

namespace strata::cli {

/// Summarizes a trace in some lines. Reads it to its end.
/// \errors  TraceError
std::string trace_info(trace::Reader& trace);

}  // namespace strata::cli
