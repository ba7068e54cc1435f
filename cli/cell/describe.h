#pragma once

#include <string>

namespace strata::cell {

/// What this program can do, as JSON for `strata`: its scenarios with their options, and the
/// contenders that live in it.
std::string describe_everything();

}  // namespace strata::cell
