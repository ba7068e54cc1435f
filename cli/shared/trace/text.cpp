#include "shared/trace/text.h"

#include <cstdint>

#include "shared/words.h"

namespace strata::trace {

bool parse_property(std::string_view line, Properties& out) {
  const std::size_t equals = line.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  out.insert_or_assign(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  return true;
}

bool parse_thread(std::string_view line, std::vector<Thread>& out) {
  const auto number = parse_number<std::uint32_t>(take_word(line));
  const auto id = parse_number<std::uint64_t>(take_word(line));
  if (!number || !id) return false;
  out.push_back({*number, *id, std::string(line)});
  return true;
}

bool parse_module(std::string_view line, std::vector<Module>& out) {
  const auto start = parse_number<std::uint64_t>(take_word(line), 16);
  const auto end = parse_number<std::uint64_t>(take_word(line), 16);
  const auto offset = parse_number<std::uint64_t>(take_word(line), 16);
  const std::string_view build_id = take_word(line);
  if (!start || !end || !offset || *end < *start) return false;
  out.push_back(
      {*start, *end, *offset, std::string(build_id == "-" ? "" : build_id), std::string(line)});
  return true;
}

}  // namespace strata::trace
