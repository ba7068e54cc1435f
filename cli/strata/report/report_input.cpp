#include "report/report_input.h"

#include <fmt/format.h>

#include "input/read_file.h"
#include "input/usage_error.h"
#include "profile/gunzip.h"

namespace strata::cli {

InputKind kind_of(std::string_view text) {
  if (is_gzip(text)) return InputKind::kProfile;
  std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return InputKind::kResults;
  return InputKind::kUnknown;
}

ReportInput read_input(const std::string& path) {
  ReportInput input;
  input.name = path;
  input.text = read_file(path);
  input.kind = kind_of(input.text);
  if (input.text.empty()) throw UsageError(fmt::format("'{}' is empty", path));
  if (input.kind == InputKind::kUnknown) {
    throw UsageError(fmt::format(
        "'{}' is neither a result file nor a heap profile; 'strata compare --json FILE', "
        "'strata bench --json FILE' and 'strata run --profile FILE' write them",
        path));
  }
  return input;
}

}  // namespace strata::cli
