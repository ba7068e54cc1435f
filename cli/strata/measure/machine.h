#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata::cli {

/// Describes the measuring machine as far as it affects results: processor, memory, kernel,
/// distribution, C library, huge-page mode. Omits what cannot be read.
nlohmann::ordered_json describe_machine();

/// The same in one line of text; what is not there is unknown.
std::string machine_line(const nlohmann::ordered_json& machine);

/// The time of day in UTC, "2026-01-31T12:00:00Z".
std::string time_of_day();

}  // namespace strata::cli
