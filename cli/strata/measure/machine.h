#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata::cli {

/// The machine that a result was measured on, as far as it can change the numbers: processor,
/// memory, kernel, distribution, C library, huge-page mode. What cannot be read is left out.
nlohmann::ordered_json describe_machine();

/// The same in one line for people.
std::string machine_line(const nlohmann::ordered_json& machine);

/// The time of day in UTC, "2026-01-31T12:00:00Z".
std::string time_of_day();

}  // namespace strata::cli
