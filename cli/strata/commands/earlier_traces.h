#pragma once

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

namespace strata::cli {

/// \errors  UsageError if the file that `strata record` is to write is there and is no trace.
void expect_trace_or_nothing(const std::filesystem::path& file);

/// What an earlier recording of a FILE left: FILE, and FILE.PID of the processes that its process
/// started. A recorder never writes over a file, so they are set aside until the command has
/// started. What other recordings left beside them is not touched.
class EarlierTraces {
 public:
  /// \param file    absolute, and no link
  /// \errors  UsageError if one of them cannot be set aside; then all are where they were
  explicit EarlierTraces(const std::filesystem::path& file);
  ~EarlierTraces();  ///< puts back what was not removed
  EarlierTraces(const EarlierTraces&) = delete;
  EarlierTraces& operator=(const EarlierTraces&) = delete;

  /// For good.
  void remove() noexcept;

  /// FILE and FILE.PID of the processes that recorded since.
  std::vector<std::filesystem::path> later_traces() const;

 private:
  void put_back() noexcept;

  std::filesystem::path file_;
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> aside_;  ///< from, to
  std::set<std::filesystem::path> others_;
};

}  // namespace strata::cli
