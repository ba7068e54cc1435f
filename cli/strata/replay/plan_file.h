#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "shared/replay_plan.h"

namespace strata::cli {

/// Writes the bytes of a plan: the words of any number of threads, each thread's in its own chunks.
class PlanFile {
 public:
  /// \errors  std::system_error, as in all functions that write.
  explicit PlanFile(const std::string& path);

  void put(std::size_t stream, std::uint64_t word);
  /// Creates the streams up to this one, even without words.
  void need_stream(std::size_t stream);
  void set_slots(std::size_t stream, std::uint64_t slots) { streams_[stream].slots = slots; }

  /// Writes the remaining words and the header, with the counts of streams and epochs filled in.
  void finish(plan::Header header, const std::vector<std::uint32_t>& epoch_threads);

 private:
  struct Open {
    std::vector<std::uint64_t> words;
    std::uint64_t at = 0;  ///< the chunk's position in the file
  };
  void write_chunk(std::size_t stream, std::uint64_t next);
  void write(std::uint64_t at, const void* bytes, std::size_t count);

  std::string path_;
  std::ofstream file_;
  std::uint64_t end_;
  std::vector<plan::Stream> streams_;
  std::vector<Open> open_;
};

}  // namespace strata::cli
