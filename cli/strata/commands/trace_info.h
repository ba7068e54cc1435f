#pragma once

#include <filesystem>
#include <string>

#include "shared/trace/reader.h"

namespace strata::cli {

/// What a person wants to know of a trace first, some lines. Reads it to its end.
/// \errors  TraceError
std::string trace_info(trace::Reader& trace);

/// What a trace says before its first event; of a file that is no whole beginning of one, nothing.
struct TraceBeginning {
  trace::Properties process;
  bool has_no_events = false;
};
TraceBeginning beginning_of(const std::filesystem::path& trace);

}  // namespace strata::cli
