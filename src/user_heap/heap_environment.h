#pragma once

#include <string_view>

#include "malloc/heap_profile.h"
#include "malloc/options.h"
#include "os/path.h"

namespace strata {

/// Does for heaps what STRATA_PROFILE and STRATA_LEAKS ask for as the process ends, if the
/// program's malloc is not from the same archive. Otherwise the malloc does it for all. The
/// profile's file has a name of its own, since the program's malloc may be a Strata, too, which
/// writes the file that was asked for.
///
/// Call once. May call dlopen and allocate: no lock is held.
void start_profile_of_environment(HeapProfile& profile, const Options& options) noexcept;

/// Writes the name of the heaps' file: ".heaps" after the first part of the file's name,
/// app.heaps.pb.gz.
/// \returns  false if it does not fit
bool write_name_of_heaps(std::string_view path, os::Path& out) noexcept;

}  // namespace strata
