#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "contenders/in_process.h"
#include "tiny/tiny.h"

/// \file  A tiny program, started over and over: what an allocator costs a program that hardly
/// allocates. Most of it is loading and initialising the library; a run without a preloaded library
/// is the floor. strata-tiny (tiny/tiny.c) allocates a hundred blocks, checks and frees them, and
/// ends.

extern char** environ;

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kMalloc;
constexpr std::uint64_t kBatchStarts = 4;  // half a millisecond each

class Starter {
 public:
  Starter()
      : program_(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "strata-tiny") {
    if (!std::filesystem::exists(program_)) {
      throw std::runtime_error(fmt::format("{} is missing", program_));
    }
  }

  /// Starts the program and waits for its end. If given a descriptor, it writes its resident set
  /// there.
  void start(const std::string& fd = {}) const {
    char* const arguments[] = {const_cast<char*>(program_.c_str()),
                               fd.empty() ? nullptr : const_cast<char*>(fd.c_str()), nullptr};
    pid_t child = 0;
    if (const int error =
            ::posix_spawn(&child, program_.c_str(), nullptr, nullptr, arguments, environ);
        error != 0) {
      fail_wrong_work(fmt::format("strata-tiny did not start: {}", std::strerror(error)));
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status)) {
      fail_wrong_work(fmt::format("strata-tiny was killed by signal {}", WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) == STRATA_TINY_CORRUPTED) report_corruption({nullptr, 100, 0});
    if (WEXITSTATUS(status) != 0) {
      fail_wrong_work(fmt::format("strata-tiny ended with {}", WEXITSTATUS(status)));
    }
  }

  /// The program's resident set before it ends; 0 if unknown.
  double rss_bytes() const {
    int ends[2];
    if (::pipe(ends) != 0) return 0;
    start(std::to_string(ends[1]));
    ::close(ends[1]);
    char text[32] = {};
    const ssize_t length = ::read(ends[0], text, sizeof text - 1);
    ::close(ends[0]);
    return length > 0 ? std::strtod(text, nullptr) : 0;
  }

 private:
  std::string program_;
};

/// An operation is a program started and waited for.
struct Lane {
  const Starter& starter;
  LatencyKind start_kind;

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchStarts; ++i) {
      probe.time(start_kind, [&] { starter.start(); });
    }
    return kBatchStarts;
  }
};

void startup(Cell& cell) {
  const Starter starter;
  const LatencyKind start_kind = cell.add_latency("start");
  run_lanes<kFits>(
      cell, Needs(),
      [&](auto&, Worker&) {
        return Lane{starter, start_kind};
      },
      [&] { cell.metric("tiny_rss_bytes", starter.rss_bytes()); });
}

const Registration<startup> kStartup({
    .name = "startup",
    .purpose = "a tiny program, started many times",
    .fits = kFits,
    .options = {},
    .shown = {"ns_per_op", "tiny_rss_bytes"},
});

}  // namespace
}  // namespace strata::cell
