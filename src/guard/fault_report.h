#pragma once

#include "os/faults.h"

/// \file  Reports of faults in memory of ours.

namespace strata {

/// Lets the first thread that faults report and die; others wait here for that.
void begin_fault_report() noexcept;

/// The access: "read", "wrote", or something less specific if the system does not say.
const char* verb_of(const os::Fault& fault) noexcept;

/// Reports an access to where there never was an object.
void report_wild_access(const os::Fault& fault) noexcept;

}  // namespace strata
