#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// What a page can be made of, recognized by what a file contains, never by its name. A new kind is
/// a value here, a test of its first bytes, and a report of its own that makes a Page.
enum class InputKind { kUnknown, kResults, kProfile };

struct ReportInput {
  std::string name;
  std::string text;
  InputKind kind;
};

InputKind kind_of(std::string_view text);

/// \errors  UsageError naming the file: it cannot be read, is empty, or is of no kind we know.
ReportInput read_input(const std::string& path);

}  // namespace strata::cli
