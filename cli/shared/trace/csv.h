#pragma once

#include <iosfwd>
#include <string>

#include "shared/trace/reader.h"
#include "shared/trace/writer.h"

/// \file  Traces as text, in both directions: for tools that know no traces, and from tools that
/// make others. docs/trace-format.md describes the columns.

namespace strata::trace {

/// Writes what is left of a trace: a line for each event, and lines that begin with # for all else.
/// \errors  TraceError
void write_csv(Reader& trace, std::ostream& out);

/// Reads events as other tools know them: the first line names the columns; threads and objects may
/// have any names, an object's is free for another once it has ended.
/// \param name  the input's, for errors
/// \errors  TraceError naming the line. The writer's own failure shows in has_failed().
void read_csv(const std::string& name, std::istream& in, Writer& out);

/// "malloc" and the like. operation_named() returns false for what is none.
const char* operation_name(Operation operation) noexcept;
bool operation_named(std::string_view name, Operation& out) noexcept;

}  // namespace strata::trace
