#pragma once

#include "os/faults.h"

/// \file  How an access to memory of ours that faulted is reported.

namespace strata {

/// The first thread that faults reports and dies; others wait here for that.
void begin_fault_report() noexcept;

/// What the program did: "read", "wrote", or less where the system does not say.
const char* verb_of(const os::Fault& fault) noexcept;

/// All that is said of an access to where no object was ever.
void report_wild_access(const os::Fault& fault) noexcept;

}  // namespace strata
