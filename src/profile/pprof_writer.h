#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_sink.h"
#include "os/page_source.h"
#include "profile/site_table.h"

namespace strata {

/// Writes the sites of one rate as a heap profile in pprof's format (profile.proto, not yet wrapped
/// in gzip): objects and bytes, allocated and live, by stack, with the label `heap` for a user
/// heap; and the mapped files with their build IDs, so that pprof and `strata report` find names
/// and lines.
///
/// A location's ID is its address, so no table of them is needed. Memory for sorting comes from the
/// page source and goes back; nothing else is allocated.
/// \source   github.com/google/pprof, proto/profile.proto.
/// \threads  One at a time; sites may change meanwhile: each sum is what it was at some moment.
class PprofWriter {
 public:
  PprofWriter(TextSink& out, os::PageSource& pages) noexcept : out_(out), pages_(pages) {}

  /// \param started_ns  wall-clock time; the profile lasts until now
  /// \returns  False when out of memory: then what was written is no profile.
  bool write(SiteTable& sites, std::size_t rate, std::uint64_t started_ns) noexcept;
  /// False if the kernel did not say which files are mapped: then addresses have no names.
  bool has_all_files() const noexcept { return has_all_files_; }

 private:
  std::uint64_t add_string(std::string_view text) noexcept;
  void write_types() noexcept;
  void write_samples(SiteTable& sites, std::size_t rate) noexcept;
  bool write_locations(SiteTable& sites, std::size_t rate) noexcept;

  TextSink& out_;
  os::PageSource& pages_;
  std::uint64_t strings_ = 0;
  bool has_all_files_ = true;
};

}  // namespace strata
