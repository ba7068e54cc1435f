#include "shared/trace/text.h"

namespace strata::trace {
namespace {

/// Cuts the next word off; what stands after it is left.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

}  // namespace

bool parse_property(std::string_view line, Properties& out) {
  const std::size_t equals = line.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  out.insert_or_assign(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  return true;
}

bool parse_thread(std::string_view line, std::vector<Thread>& out) {
  Thread thread;
  if (!parse_number(take_word(line), 10, thread.number) ||
      !parse_number(take_word(line), 10, thread.id)) {
    return false;
  }
  thread.name = line;
  out.push_back(std::move(thread));
  return true;
}

bool parse_module(std::string_view line, std::vector<Module>& out) {
  Module module;
  if (!parse_number(take_word(line), 16, module.start) ||
      !parse_number(take_word(line), 16, module.end) ||
      !parse_number(take_word(line), 16, module.offset)) {
    return false;
  }
  module.build_id = take_word(line);
  if (module.build_id == "-") module.build_id.clear();
  module.path = line;
  if (module.end < module.start) return false;
  out.push_back(std::move(module));
  return true;
}

}  // namespace strata::trace
