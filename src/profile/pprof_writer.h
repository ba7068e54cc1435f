#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_sink.h"
#include "os/page_source.h"
#include "profile/site_table.h"

namespace strata {

/// Writes the sites of one rate as a heap profile in pprof's format (profile.proto, not yet
/// wrapped in gzip): objects and bytes, allocated and live, by stack, where it is a heap of
/// the user's with the label `heap`; the mapped files with their build ids, so that pprof and
/// `strata report` find names and lines.
///
/// A location's number is its address, so that no table of them is needed; memory for sorting them
/// comes from the page source and goes back. Nothing is allocated otherwise.
/// \source   github.com/google/pprof, proto/profile.proto.
/// \threads  One at a time; sites may change meanwhile: each sum is what it was at some moment.
class PprofWriter {
 public:
  PprofWriter(TextSink& out, os::PageSource& pages) noexcept : out_(out), pages_(pages) {}

  /// \param started_ns  wall-clock time; the profile lasts until now
  /// \returns  False when out of memory: what was written is no profile then.
  bool write(SiteTable& sites, std::size_t rate, std::uint64_t started_ns) noexcept;
  /// False if the kernel did not say which files are mapped: then addresses stay without names.
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
