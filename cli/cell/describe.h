#pragma once

#include "shared/scenario.h"

namespace strata::cell {

/// What this program can do: its scenarios with their options, and the contenders that live in it.
Description describe_everything();

}  // namespace strata::cell
