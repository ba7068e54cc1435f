#include "commands/trace_beginning.h"

namespace strata::cli {

TraceBeginning beginning_of(const std::filesystem::path& trace) {
  TraceBeginning beginning;
  try {
    trace::Reader reader(trace.string());
    trace::Event event;
    beginning.has_no_events = !reader.next(event);
    beginning.process = reader.process();
  } catch (const trace::TraceError&) {
  }
  return beginning;
}

}  // namespace strata::cli
