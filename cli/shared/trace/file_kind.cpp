#include "shared/trace/file_kind.h"

#include <algorithm>

#include "shared/trace/layout.h"

namespace strata {
namespace {

/// Skips blanks, and `word` if it comes next.
bool skip(std::string_view& text, std::string_view word) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const bool is_next = text.starts_with(word);
  if (is_next) text.remove_prefix(word.size());
  return is_next;
}

}  // namespace

FileKind file_kind_of(std::string_view beginning) {
  constexpr std::string_view kTrace(trace::kFileMagic, sizeof trace::kFileMagic);
  if (beginning.starts_with(kTrace)) return FileKind::kTrace;
  if (beginning.starts_with("\x1f\x8b")) return FileKind::kProfile;
  skip(beginning, kByteOrderMark);
  if (beginning.starts_with("operation,")) return FileKind::kCalls;
  if (!skip(beginning, "{")) return FileKind::kOther;
  if (skip(beginning, "\"schema\"") && skip(beginning, ":")) {
    if (skip(beginning, "\"strata-results/")) return FileKind::kResults;
    if (skip(beginning, "\"strata-stats/")) return FileKind::kStatistics;
  }
  return FileKind::kOtherJson;
}

std::string_view describe_file(FileKind kind, std::string_view otherwise) {
  switch (kind) {
    case FileKind::kTrace:
      return "it looks like a trace, which strata explain, advise, replay, bench and trace read";
    case FileKind::kCalls:
      return "it looks like calls in CSV, of which strata trace csv makes a trace";
    case FileKind::kProfile:
      return "it looks like a heap profile, which strata profile and strata report read";
    case FileKind::kResults:
      return "it looks like results, which strata report reads";
    case FileKind::kStatistics:
      return "it looks like statistics of the malloc, which no command reads";
    case FileKind::kOtherJson:
    case FileKind::kOther:
      break;
  }
  return otherwise;
}

}  // namespace strata
