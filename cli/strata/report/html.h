#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.h"

/// \file  HTML fragments that several pages share.

namespace strata::cli {

/// Escapes text for a page or an attribute's value.
std::string html_escaped(std::string_view text);

/// "function <small>a.cpp:10</small>"
std::string line_html(const Line& line);

/// Formats sentences for the reader as paragraphs.
std::string notes_html(const std::vector<std::string>& notes);

/// Begins a table: its headings follow, then kTableBody, its rows and kTableEnd. It lies in a box
/// that scrolls, by the keyboard, too.
std::string table_start(std::string_view table_classes, std::string_view box_classes = "scroll");
inline constexpr const char* kTableBody = "</tr></thead>\n<tbody>\n";
inline constexpr const char* kTableEnd = "</tbody></table></div>\n";

/// A column heading that sorts the table when clicked.
/// \param meaning  its tooltip
std::string column_head(std::string_view title, bool is_number = true,
                        std::string_view meaning = {});

/// A field that sorts by its number, however that is written.
/// \param small  follows the text in small type
std::string number_field(double value, const std::string& text, bool is_best = false,
                         const std::string& small = {});
std::string text_field(std::string_view text);
/// A field of numbers that has none.
inline constexpr const char* kNoField = "<td data-v=\"\"></td>";

}  // namespace strata::cli
