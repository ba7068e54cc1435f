#include "shared/trace/cut.h"

#include <fmt/format.h>

#include <unordered_map>
#include <vector>

namespace strata::trace {
namespace {

class Cut {
 public:
  Cut(Reader& in, Writer& out, std::uint64_t from_ns) : in_(in), out_(out), from_ns_(from_ns) {}

  void add(Event event) {
    if (event.ended < kUnknownObject) {
      event.ended = event.ended < first_object_ ? kUnknownObject : event.ended - first_object_;
    }
    // A lost object from before the part is not an event of the part.
    if (event.operation == Operation::kLost && event.ended == kUnknownObject) return;
    event.time_ns -= from_ns_;
    event.thread = thread(event.thread);
    event.stack = stack(event.stack);
    if (event.object != kNoObject) event.object -= first_object_;
    out_.add(event);
  }

  void skip(const Event& event) {
    if (event.object != kNoObject) first_object_ = event.object + 1;
    told_dropped_ = in_.dropped_events();
  }

  /// Adds the calls dropped since the last event outside the part: they may belong to it.
  void add_dropped() {
    const std::uint64_t dropped = in_.dropped_events();
    if (dropped != told_dropped_) out_.add_dropped(dropped - told_dropped_);
    told_dropped_ = dropped;
  }

  void write_process() {
    std::string text;
    for (const auto& [name, value] : in_.process()) text += name + "=" + value + "\n";
    if (!text.empty()) out_.add_text(BlockKind::kProcess, text);
  }

  void write_threads() {
    std::string text;
    for (const Thread& thread : in_.threads()) {
      const auto found = threads_.find(thread.number);
      if (found == threads_.end()) continue;
      text += fmt::format("{} {} {}\n", found->second, thread.id, thread.name);
    }
    if (!text.empty()) out_.add_text(BlockKind::kThreads, text);
  }

 private:
  /// Writes modules so that the last one written that holds the address is the right one.
  void need_module(std::uint32_t number, std::uint64_t address) {
    if (number == Reader::kNoModule) return;
    for (std::size_t i = modules_.size(); i-- > 0;) {
      const Module& told = in_.modules()[modules_[i]];
      if (address <= told.start || address > told.end) continue;
      if (modules_[i] == number) return;
      break;
    }
    const Module& module = in_.modules()[number];
    modules_.push_back(number);
    out_.add_text(BlockKind::kModules,
                  fmt::format("{:x} {:x} {:x} {} {}\n", module.start, module.end, module.offset,
                              module.build_id.empty() ? "-" : module.build_id, module.path));
  }

  std::uint32_t thread(std::uint32_t number) {
    return threads_.try_emplace(number, static_cast<std::uint32_t>(threads_.size())).first->second;
  }

  std::uint32_t stack(std::uint32_t number) {
    std::vector<std::uint32_t> missing;  // innermost first
    for (; !stacks_.contains(number); number = in_.stacks()[number].parent)
      missing.push_back(number);
    std::uint32_t written = stacks_[number];
    for (std::size_t i = missing.size(); i-- > 0;) {
      const std::uint64_t address = in_.stacks()[missing[i]].return_address;
      need_module(in_.module_of(missing[i]), address);
      written = stacks_[missing[i]] = out_.add_stack({written, address});
    }
    return written;
  }

  Reader& in_;
  Writer& out_;
  const std::uint64_t from_ns_;
  std::uint64_t first_object_ = 0;
  std::uint64_t told_dropped_ = 0;
  std::vector<std::uint32_t> modules_;  ///< modules written, in order
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;
  std::unordered_map<std::uint32_t, std::uint32_t> stacks_{{0, 0}};  ///< the root maps to the root
};

}  // namespace

void cut(Reader& in, Writer& out, std::uint64_t from_ns, std::uint64_t until_ns) {
  Cut cut(in, out, from_ns);
  bool is_begun = false;
  for (Event event; in.next(event) && !out.has_failed();) {
    if (event.time_ns >= until_ns) break;
    if (event.time_ns < from_ns) {
      cut.skip(event);
      continue;
    }
    if (!is_begun) cut.write_process();
    is_begun = true;
    cut.add_dropped();
    cut.add(event);
  }
  if (is_begun) cut.add_dropped();
  cut.write_threads();
  out.end("reason=cut\n");
}

}  // namespace strata::trace
