#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"
#include "report/page.h"

namespace strata::cli {

/// Makes the page of a heap profile: the flame graph, and a table of the allocating places.
/// \param title  empty: the program's name
/// \param notes  sentences that the reader must know
/// \pre   the profile has symbols
Page flame_page(const Profile& profile, const std::string& title,
                const std::vector<std::string>& notes);

}  // namespace strata::cli
