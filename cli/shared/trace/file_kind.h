#pragma once

#include <string_view>

/// \file  What a file is, by its beginning. Here, because the readers of traces and of CSV say what
///        else they were given, and the commands that read other files say so, too.

namespace strata {

/// The kinds of files that the commands and the malloc write, and how each begins.
enum class FileKind {
  kTrace,       ///< of `strata record`: the magic bytes
  kCalls,       ///< of `strata trace csv`: the column "operation"
  kProfile,     ///< of `strata run --profile`: whatever gzip packed
  kResults,     ///< of `--json`: a JSON object, first of all the schema "strata-results/…"
  kStatistics,  ///< of the malloc: a JSON object, first of all the schema "strata-stats/…"
  kOtherJson,   ///< any other JSON object: results, too, whose members were sorted
  kOther,       ///< anything else: a profile, too, that was unpacked
};

/// What spreadsheets write before the text of a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Recognizes a file by how it begins, behind a byte order mark if it has one. A trace's header (32
/// bytes) is long enough, unless more than six blanks stand before the schema.
FileKind file_kind_of(std::string_view beginning);

/// What a file is that a command cannot read, and which commands can: "it looks like results, which
/// strata report reads".
/// \returns  `otherwise` if no command has written such a file
std::string_view describe_file(FileKind kind, std::string_view otherwise);

}  // namespace strata
