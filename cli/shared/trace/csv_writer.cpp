#include <ostream>

#include "shared/trace/csv.h"
#include "shared/words.h"

namespace strata::trace {
namespace {

/// Writes the definitions that the reader has read since the last call.
class Definitions {
 public:
  Definitions(const Reader& trace, std::ostream& out) : trace_(trace), out_(out) {}

  void write_new() {
    for (const auto& [name, value] : trace_.process()) {
      const auto [at, is_new] = process_.try_emplace(name, value);
      if (!is_new && at->second == value) continue;
      at->second = value;
      out_ << "#process," << csv_field(name) << ',' << csv_field(value) << '\n';
    }
    for (; threads_ < trace_.threads().size(); ++threads_) {
      const Thread& thread = trace_.threads()[threads_];
      out_ << "#thread," << thread.number << ',' << thread.id << ',' << csv_field(thread.name)
           << '\n';
    }
    for (; stacks_ < trace_.stacks().size(); ++stacks_) {
      // A frame lies in the last module defined before it, so write no module beyond that one yet.
      const std::uint32_t module = trace_.module_of(stacks_);
      if (module != Reader::kNoModule) write_modules(module + 1);
      const StackNode& node = trace_.stacks()[stacks_];
      out_ << "#stack," << stacks_ << ',' << node.parent << ",0x" << std::hex << node.return_address
           << std::dec << '\n';
    }
    write_modules(trace_.modules().size());
    if (dropped_ != trace_.dropped_events()) {
      out_ << "#dropped," << trace_.dropped_events() - dropped_ << '\n';
      dropped_ = trace_.dropped_events();
    }
  }

 private:
  void write_modules(std::size_t end) {
    out_ << std::hex;
    for (; modules_ < end; ++modules_) {
      const Module& module = trace_.modules()[modules_];
      out_ << "#module,0x" << module.start << ",0x" << module.end << ",0x" << module.offset << ','
           << module.build_id << ',' << csv_field(module.path) << '\n';
    }
    out_ << std::dec;
  }

  const Reader& trace_;
  std::ostream& out_;
  Properties process_;
  std::size_t threads_ = 0;
  std::size_t modules_ = 0;
  std::uint32_t stacks_ = 1;  // the root is not a frame
  std::uint64_t dropped_ = 0;
};

void write_object(std::uint64_t object, std::ostream& out) {
  if (object == kUnknownObject) {
    out << "unknown";
  } else if (object != kNoObject) {
    out << object;
  }
}

void write_event(const Event& event, std::ostream& out) {
  out << kOperationNames[static_cast<unsigned>(event.operation)] << ',' << event.time_ns << ','
      << event.thread << ',';
  write_object(event.object, out);
  out << ',';
  if (begins_object(event.operation)) out << event.size_bytes;
  out << ',';
  if (event.alignment != 0) out << event.alignment;
  out << ',';
  if (event.stack != 0) out << event.stack;
  out << ',';
  write_object(event.ended, out);
  out << '\n';
}

}  // namespace

void write_csv(Reader& trace, std::ostream& out) {
  out << "operation,time_ns,thread,object,size_bytes,alignment,stack,ended\n";
  Definitions definitions(trace, out);
  for (Event event; out && trace.next(event);) {
    definitions.write_new();
    write_event(event, out);
  }
  definitions.write_new();
  for (const auto& [name, value] : trace.ending()) {
    out << "#end," << csv_field(name) << ',' << csv_field(value) << '\n';
  }
}

}  // namespace strata::trace
