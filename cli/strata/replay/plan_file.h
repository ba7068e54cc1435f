#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/replay_plan.h"

namespace strata::cli {

/// Writes a plan's bytes: the words of any number of threads, each in chunks of its own.
class PlanFile {
 public:
  /// \errors  std::system_error, here and in all that writes.
  explicit PlanFile(const std::string& path);
  ~PlanFile();
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

  void put(std::size_t stream, std::uint64_t word);
  /// Streams that are there without words, too.
  void need_stream(std::size_t stream);
  void set_slots(std::size_t stream, std::uint64_t slots) { streams_[stream].slots = slots; }

  /// Writes what is left and the head: its counts of streams and epochs are filled in.
  void finish(plan::Header header, const std::vector<std::uint32_t>& epoch_threads);

 private:
  struct Open {
    std::vector<std::uint64_t> words;
    std::uint64_t at = 0;  ///< of the chunk in the file
  };
  void write_chunk(std::size_t stream, std::uint64_t next);
  void write(std::uint64_t at, const void* bytes, std::size_t count);

  std::string path_;
  int fd_;
  std::uint64_t end_;
  std::vector<plan::Stream> streams_;
  std::vector<Open> open_;
};

}  // namespace strata::cli
