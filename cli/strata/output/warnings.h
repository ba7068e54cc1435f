#pragma once

#include <string>
#include <vector>

#include "output/say.h"
#include "output/text.h"

namespace strata::cli {

/// Prints each note as a warning.
inline void warn_of(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say("strata: warning: {}\n", printable(note));
}

}  // namespace strata::cli
