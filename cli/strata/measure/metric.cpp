#include "measure/metric.h"

#include <algorithm>
#include <iterator>

namespace strata::cli {

Better better(std::string_view metric) {
  constexpr std::string_view kAmountsOfWork[] = {"ops",  "sent",    "dropped",        "received",
                                                 "left", "samples", "peak_live_bytes"};
  if (std::find(std::begin(kAmountsOfWork), std::end(kAmountsOfWork), metric) !=
      std::end(kAmountsOfWork)) {
    return Better::kNeither;
  }
  return metric.ends_with("_per_s") || metric.ends_with("_share") ? Better::kMore : Better::kLess;
}

}  // namespace strata::cli
