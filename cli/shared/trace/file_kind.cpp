#include "shared/trace/file_kind.h"

#include "shared/trace/layout.h"

namespace strata {

FileKind file_kind_of(std::string_view beginning) {
  constexpr std::string_view kTrace(trace::kFileMagic, sizeof trace::kFileMagic);
  if (beginning.starts_with(kTrace)) return FileKind::kTrace;
  if (beginning.starts_with("operation,")) return FileKind::kCalls;
  if (beginning.starts_with("\x1f\x8b")) return FileKind::kProfile;  // by gzip
  if (beginning.starts_with("{\"schema\":\"strata-stats/")) return FileKind::kStatistics;
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && beginning[first] == '{';
  return is_json ? FileKind::kResults : FileKind::kOther;
}

std::string_view about(FileKind kind, std::string_view otherwise) {
  constexpr std::string_view kSentences[] = {
      "it looks like a trace, which strata explain, strata replay and strata advise read",
      "it looks like calls in CSV, of which strata trace csv makes a trace",
      "it looks like a heap profile, which strata profile and strata report read",
      "it looks like results, which strata report reads",
      "it looks like statistics of the malloc, which no command reads",
  };
  return kind == FileKind::kOther ? otherwise : kSentences[static_cast<unsigned>(kind)];
}

}  // namespace strata
