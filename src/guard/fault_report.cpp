#include "guard/fault_report.h"

#include <atomic>

#include "base/fatal.h"
#include "base/text_writer.h"
#include "guard/call_site.h"
#include "os/wait.h"

namespace strata {

void begin_fault_report() noexcept {
  static std::atomic<bool> is_reporting{false};
  while (is_reporting.exchange(true, std::memory_order_relaxed)) os::relax_processor();
}

const char* verb_of(const os::Fault& fault) noexcept {
  switch (fault.access) {
    case os::Fault::Access::kRead:
      return "read";
    case os::Fault::Access::kWrite:
      return "wrote";
    default:
      return "accessed memory";
  }
}

void report_wild_access(const os::Fault& fault) noexcept {
  TextWriter sentence;
  sentence.text("wild access to ").pointer(fault.address).text(": no object was ever there");
  print_about(fault.address, sentence.view());
  CallSite::of_fault(fault).print("accessed");
}

}  // namespace strata
