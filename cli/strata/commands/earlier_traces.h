#pragma once

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "shared/trace/reader.h"

namespace strata::cli {

/// What a trace contains before its first event; empty for a file without a complete beginning.
struct TraceBeginning {
  trace::Properties process;
  bool has_no_events = false;
};
TraceBeginning beginning_of(const std::filesystem::path& trace);

/// \errors  UsageError if the output file of `strata record` exists and is not a trace.
void expect_trace_or_nothing(const std::filesystem::path& file);

/// The traces that an earlier recording left at FILE, and at FILE.PID for the processes that its
/// process started. A recorder never overwrites a file, so they are moved aside until the command
/// has started. Traces of other recordings are not touched.
class EarlierTraces {
 public:
  /// \param file    absolute, and not a link
  /// \errors  UsageError if one cannot be moved aside; all are then back in place
  explicit EarlierTraces(const std::filesystem::path& file);
  ~EarlierTraces();  ///< restores those that were not removed
  EarlierTraces(const EarlierTraces&) = delete;
  EarlierTraces& operator=(const EarlierTraces&) = delete;

  void remove() noexcept;

  /// The traces written since, FILE and FILE.PID.
  std::vector<std::filesystem::path> later_traces() const;

 private:
  void put_back() noexcept;

  std::filesystem::path file_;
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> aside_;  ///< from, to
  std::set<std::filesystem::path> others_;
};

}  // namespace strata::cli
