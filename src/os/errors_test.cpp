#include "os/errors.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace strata::os {
namespace {

TEST(Errors, SaysWhyThroughErrno) {
  set_errno_no_memory();
  EXPECT_EQ(errno, ENOMEM);
  set_errno_invalid();
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(error_no_memory(), ENOMEM);
  EXPECT_EQ(error_invalid(), EINVAL);
}

}  // namespace
}  // namespace strata::os
