#include "guard/fault_report.h"

#include <atomic>
#include <cstdint>

#include "base/fatal.h"
#include "base/text_writer.h"
#include "guard/call_site.h"
#include "os/process.h"
#include "os/wait.h"

namespace strata {

void begin_fault_report() noexcept {
  // The process whose thread reports; 0: none. The child of a fork inherits its parent's, which
  // holds up nobody there.
  static std::atomic<std::uint64_t> reporting{0};
  const std::uint64_t own = os::process_id();
  std::uint64_t seen = 0;
  while (!reporting.compare_exchange_strong(seen, own, std::memory_order_relaxed)) {
    if (seen == own) {
      os::relax_processor();
      seen = 0;
    }
  }
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
