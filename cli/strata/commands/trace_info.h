#pragma once

#include <filesystem>
#include <string>

#include "shared/trace/reader.h"

namespace strata::cli {

/// Summarizes a trace in some lines. Reads it to its end.
/// \errors  TraceError
std::string trace_info(trace::Reader& trace);

/// What a trace contains before its first event; empty for a file without a complete beginning.
struct TraceBeginning {
  trace::Properties process;
  bool has_no_events = false;
};
TraceBeginning beginning_of(const std::filesystem::path& trace);

}  // namespace strata::cli
