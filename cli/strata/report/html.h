#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.h"

/// \file  Pieces of HTML that several pages share.

namespace strata::cli {

/// Text as it stands in a page or in the value of an attribute.
std::string html_escaped(std::string_view text);

/// "function <small>a.cpp:10</small>"
std::string line_html(const Line& line);

/// What the reader must know, a paragraph for each sentence.
std::string notes_html(const std::vector<std::string>& notes);

/// The head of a column that a click sorts by.
/// \param meaning  shown where a pointer rests
std::string column_head(std::string_view title, bool is_number = true,
                        std::string_view meaning = {});

}  // namespace strata::cli
