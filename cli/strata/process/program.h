#pragma once

#include <string>
#include <string_view>

/// \file  Finds the program that a command's first word names, and whether a library can be
/// preloaded into it.

namespace strata::cli {

/// The file that execvp would run for `name`.
/// \returns  Its path: `name` itself if it contains a slash, else the first executable in PATH.
/// \errors   UsageError with the shell's status: 127 if it is not found, 126 if it may not be
///           executed or its interpreter is missing.
std::string find_program(std::string_view name);

/// Why the dynamic linker would not preload a library into this program, as the rest of a sentence
/// that begins with its name ("is statically linked, …"); empty if it would. For a script, its
/// interpreter decides.
std::string why_not_preloadable(const std::string& program);

/// Warns on standard error if the program itself defines malloc: its own functions take precedence
/// over any library's, so a preloaded malloc may never be called.
/// \param name  what the user called it
void warn_of_own_malloc(const std::string& program, std::string_view name);

/// The name of a library that the program is linked with and that defines malloc. Empty if none:
/// the program then uses the C library's malloc.
std::string linked_allocator(const std::string& program);
/// The path of that library, as the dynamic linker finds it; empty if it does not.
std::string linked_library(const std::string& program);

}  // namespace strata::cli
