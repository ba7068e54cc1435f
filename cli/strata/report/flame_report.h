#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"
#include "report/page.h"

namespace strata::cli {

/// The page of one heap profile: the flame graph, and the places that allocate as a table.
/// \param title  empty: the program's name
/// \param notes  what the reader must know, a sentence each
/// \pre   the profile is symbolised
Page flame_page(const Profile& profile, const std::string& title,
                const std::vector<std::string>& notes);

}  // namespace strata::cli
