#pragma once

#include <cstddef>

#include "base/text_sink.h"
#include "os/page_source.h"
#include "profile/site_table.h"

namespace strata {

/// Writes live memory as text: the sum of each heap, if there are others than the malloc, then the
/// stacks that allocated it, the largest first, with the heap's name. Each frame has its module and
/// offset (as addr2line takes them), and its name if the dynamic linker knows one.
/// \param most_sites  how many stacks, and heaps, are written out; the rest is one line
/// \threads  One at a time; may wait for a dlopen of another thread. Allocates nothing: memory for
///           sorting comes from the page source and goes back.
void write_live_sites(SiteTable& sites, std::size_t rate, std::size_t most_sites, TextSink& out,
                      os::PageSource& pages) noexcept;

}  // namespace strata
