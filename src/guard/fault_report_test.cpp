#include "guard/fault_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "os/child_in_test.h"

namespace strata {
namespace {

TEST(FaultReport, TheChildOfAForkDoesNotWaitForAReportOfItsParent) {
  const int status = os::status_in_child([] {
    begin_fault_report();
    return os::status_in_child([] {
      alarm(20);  // ends one that waits for ever
      begin_fault_report();
      return 0;
    });
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace strata
