#pragma once

#include <string_view>

namespace strata {

/// The kinds of files that the commands write.
enum class FileKind { kTrace, kCalls, kProfile, kResults, kStatistics, kOther };

/// Recognizes a file by how it begins; a trace's header (32 bytes) is long enough.
FileKind file_kind_of(std::string_view beginning);

/// What a file is that a command cannot read, and which commands can: "it looks like a trace, which
/// strata explain, strata replay and strata advise read".
/// \returns  `otherwise` if the kind is not known
std::string_view about(FileKind kind, std::string_view otherwise);

}  // namespace strata
