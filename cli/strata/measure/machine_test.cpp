#include "measure/machine.h"

#include <gtest/gtest.h>

namespace strata::cli {
namespace {

TEST(Machine, IsOneLine) {
  const nlohmann::ordered_json machine = {{"cpu", "A processor"},
                                          {"cores", 4},
                                          {"memory_bytes", std::uint64_t{8} << 30},
                                          {"kernel", "Linux 6.1"},
                                          {"thp", "madvise"}};
  EXPECT_EQ(machine_line(machine), "4 x A processor, 8\u00a0GiB, Linux 6.1, huge pages: madvise");
}

TEST(Machine, WhatIsNotToldIsUnknownAndNot0) {
  EXPECT_EQ(machine_line(nlohmann::ordered_json::object()),
            "unknown processor, unknown memory, unknown kernel, huge pages: unknown");
}

}  // namespace
}  // namespace strata::cli
