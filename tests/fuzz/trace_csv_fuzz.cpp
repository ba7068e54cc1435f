// Traces as text from other tools: a trace made from text can be read like any other, and written
// as text again it gives the same trace.
#include <sstream>

#include "choices.h"
#include "shared/trace/csv.h"
#include "shared/trace/made_trace_test.h"

namespace {

using namespace strata::trace;
using strata::fuzz::require;

std::string trace_of(const std::string& text) {
  MadeTrace made;
  std::istringstream in(text);
  read_csv("input", in, *made.writer, [](const std::string&) {});
  return made.bytes;
}

std::string text_of(const std::string& trace) {
  Reader reader("trace", std::make_unique<std::istringstream>(trace));
  std::ostringstream out;
  write_csv(reader, out);
  return out.str();
}

}  // namespace

STRATA_FUZZ(choices) {
  std::string trace;
  try {
    trace = trace_of(std::string(choices.rest()));
  } catch (const TraceError& error) {
    require(std::string_view(error.what()).find("input") != std::string_view::npos,
            "an error names the file");
    return;
  }
  const std::string text = text_of(trace);
  require(text_of(trace_of(text)) == text, "a trace's own text makes the same trace");
}
