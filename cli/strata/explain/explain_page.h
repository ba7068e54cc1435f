#pragma once

#include <string>
#include <vector>

#include "explain/address_map.h"
#include "explain/explanation.h"
#include "report/page.h"

namespace strata::cli {

/// Makes the page of a trace: plots, maps, and a sortable, searchable table of all places.
/// \errors  std::runtime_error if gnuplot is missing or fails.
Page explain_page(const Explanation& explanation, const std::vector<AddressMap>& maps,
                  const std::string& title);

}  // namespace strata::cli
