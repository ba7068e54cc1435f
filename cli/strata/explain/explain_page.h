#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "explain/address_map.h"
#include "explain/explanation.h"
#include "report/page.h"
#include "report/plot.h"

namespace strata::cli {

/// Makes the page of a trace: plots, maps, and a sortable, searchable table of all places.
/// \errors  std::runtime_error if gnuplot is missing or fails.
Page explain_page(const Explanation& explanation, const std::vector<AddressMap>& maps,
                  const std::string& title);

/// The non-empty plots: live memory over time, sizes of objects, resizes.
std::vector<Plot> explain_plots(const Explanation& explanation);
std::vector<SeriesStyle> explain_styles();

/// The page's table of the places in `order`: sortable by column, searchable by function, line or
/// caller.
std::string places_table(const Explanation& explanation, const std::vector<std::size_t>& order);

}  // namespace strata::cli
