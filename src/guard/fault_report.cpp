#include "guard/fault_report.h"

#include <atomic>

#include "base/fatal.h"
#include "guard/call_site.h"
#include "os/output.h"
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

void print_about(const void* address, const TextWriter& sentence) noexcept {
  TextWriter line;
  line.text("strata: ").text(sentence.view());
  add_about(address, line);
  os::write_stderr(line.text("\n").view());
}

void report_wild_access(const os::Fault& fault) noexcept {
  TextWriter sentence;
  sentence.text("wild access to ").pointer(fault.address).text(": no object was ever there");
  print_about(fault.address, sentence);
  CallSite::of_fault(fault).print("accessed");
}

}  // namespace strata
