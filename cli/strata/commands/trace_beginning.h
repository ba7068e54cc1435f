#pragma once

#include <filesystem>

#include "shared/trace/reader.h"

namespace strata::cli {

/// What a trace contains before its first event; empty for a file without a complete beginning.
struct TraceBeginning {
  trace::Properties process;
  bool has_no_events = false;
};
TraceBeginning beginning_of(const std::filesystem::path& trace);

}  // namespace strata::cli
