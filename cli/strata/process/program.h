#pragma once

#include <string>
#include <string_view>

/// \file  Which file a command's first word means, and whether a library can be put under it.

namespace strata::cli {

/// The file that execvp would run for `name`.
/// \returns  Its path: `name` itself if it has a slash, else the first executable hit in PATH.
/// \errors   UsageError with the shell's status: 127 if there is none, 126 if it may not be run or
///           lacks its interpreter.
std::string find_program(std::string_view name);

/// Why the dynamic linker would ignore a preloaded library for this program, as the rest of a
/// sentence that begins with its name ("is statically linked, …"); empty if it would not. A script
/// is judged by its interpreter.
std::string why_not_preloadable(const std::string& program);

/// Says on standard error if the program itself defines malloc: then a preloaded one may never be
/// called, for the program's own functions come before those of any library.
/// \param name  what the user called it
void warn_of_own_malloc(const std::string& program, std::string_view name);

/// A library that the program is linked with and that brings a malloc of its own, by name; empty if
/// none: then the program's own malloc is the C library's.
std::string linked_allocator(const std::string& program);
/// The file of that library, as the dynamic linker finds it; empty if it does not.
std::string linked_library(const std::string& program);

}  // namespace strata::cli
