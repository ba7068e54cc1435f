#pragma once

#include <array>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "shared/trace/reader.h"
#include "shared/trace/writer.h"

/// \file  Converts traces to and from CSV, for other tools. docs/trace-format.md describes the
/// columns.

namespace strata::trace {

/// Writes the rest of a trace: a line per event, and lines beginning with # for everything else.
/// \errors  TraceError
void write_csv(Reader& trace, std::ostream& out);

/// Reads events from CSV written by any tool. The first line names the columns. Threads and objects
/// may have any names; the name of an object can be reused once the object has ended.
/// \param name  the input's name, for errors
/// \param when_ignored  called, before any event is read, for each column that is none of the
///                      format's: nothing in it is read
/// \errors  TraceError, which names the line. If the writer fails, out.has_failed() is true.
void read_csv(const std::string& name, std::istream& in, Writer& out,
              const std::function<void(const std::string& column)>& when_ignored);

/// By operation: "malloc" and the like.
inline constexpr std::array<std::string_view, kOperations> kOperationNames = {
    "malloc", "calloc", "aligned", "new", "free", "delete", "realloc", "lost"};

}  // namespace strata::trace
