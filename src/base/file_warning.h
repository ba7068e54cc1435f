#pragma once

#include <string_view>

namespace strata {

/// Says in one line on standard error (the kept one, if the program has closed its own) what is
/// wrong with a file of the malloc's, and why: "strata: warning: the profile PATH is not written:
/// File too large". Does not allocate.
/// \param path    cut if it is long; '' stands for an empty one
/// \param reason  as an operator reads it: text_of_error()
/// \param rest    follows the reason, with its own punctuation
/// \threads  Any; errno is left as it was.
void warn_of_file(std::string_view what, const char* path, std::string_view problem,
                  std::string_view reason, std::string_view rest = "") noexcept;

}  // namespace strata
