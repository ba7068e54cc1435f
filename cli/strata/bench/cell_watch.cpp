#include "bench/cell_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "process/run_process.h"
#include "shared/words.h"

namespace strata::cli {
namespace {

using cell::Phase;

/// The sampling interval while the cell rests or is about to, so that it need not wait.
constexpr double kSoonS = 0.001;
constexpr double kFirstIntervalS = 0.004;
/// As many points as a plot can show. Beyond that, every other point is dropped and the interval
/// doubles.
constexpr std::size_t kMostPoints = 256;
constexpr double kPointsAfter = 40;

/// The first bytes of a file of /proc; empty if the process is gone.
std::string read_proc(int process, const char* file) {
  int fd = ::open(fmt::format("/proc/{}/{}", process, file).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char buffer[2048];
  ssize_t got = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
}

/// The n-th word, from 0, as a number.
std::uint64_t number_at(std::string_view text, int n) {
  for (; n > 0; --n) take_word(text);
  return parse_number<std::uint64_t>(take_word(text)).value_or(0);
}

/// The value of a line "Pss:   123 kB", in bytes.
std::uint64_t kilobytes_of(std::string_view text, std::string_view key) {
  text.remove_prefix(std::min(text.find(key), text.size()));
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  return number_at(text, 0) * 1024;
}

}  // namespace

CellWatch::CellWatch(double settle_s) : settle_s_(settle_s), interval_s_(kFirstIntervalS) {
  board_fd_ = ::memfd_create("strata-board", MFD_CLOEXEC);
  void* page = MAP_FAILED;
  if (board_fd_ >= 0 && ::ftruncate(board_fd_, sizeof(cell::Board)) == 0) {
    page = ::mmap(nullptr, sizeof(cell::Board), PROT_READ | PROT_WRITE, MAP_SHARED, board_fd_, 0);
  }
  if (page == MAP_FAILED) {
    int error = errno;
    if (board_fd_ >= 0) ::close(board_fd_);
    throw std::system_error(error, std::generic_category(), "a page to share with the cell");
  }
  board_ = static_cast<cell::Board*>(page);
}

CellWatch::~CellWatch() {
  ::munmap(board_, sizeof(cell::Board));
  ::close(board_fd_);
}

double CellWatch::look() {
  // acquire: with the release in Cell::rest(), the process number and the cell's earlier work are
  // visible
  const Phase phase = board_->phase.load(std::memory_order_acquire);
  const bool is_seen = board_->seen.load(std::memory_order_relaxed) == phase;
  switch (phase) {
    case Phase::kReady:
      if (!is_seen) {
        ready_ = sample("start", true);
        load_began_s_ = now_s();
        let_go_on(phase);
      }
      return kSoonS;
    case Phase::kLoad:
      look_at_work(load_, "load");
      return interval_s_;
    case Phase::kLoaded:
      if (!is_seen) {
        loaded_ = sample("load", true);
        table_bytes_ = board_->table_bytes.load(std::memory_order_relaxed);
        let_go_on(phase);
      }
      return kSoonS;
    case Phase::kFreeing:
      look_at_work(freeing_, "freeing");
      return interval_s_;
    case Phase::kAfter:
      return is_seen ? kSoonS : look_after();
    case Phase::kStarting:
    case Phase::kReporting:
      break;
  }
  return kSoonS;
}

void CellWatch::look_at_work(std::vector<TimelinePoint>& points, const char* phase) {
  const std::optional<TimelinePoint> point = sample(phase, false);
  if (!point) return;
  points.push_back(*point);
  if (points.size() < kMostPoints) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < points.size(); i += 2) points[kept++] = points[i];
  points.resize(kept);
  interval_s_ *= 2;
}

double CellWatch::look_after() {
  const double now = now_s();
  if (freed_s_ == 0) freed_s_ = now;
  const bool is_last = now - freed_s_ >= settle_s_;
  if (const auto point = sample("after", is_last)) after_.push_back(*point);
  if (is_last) let_go_on(Phase::kAfter);
  return std::max(kSoonS, std::min(settle_s_ / kPointsAfter, freed_s_ + settle_s_ - now));
}

void CellWatch::let_go_on(Phase phase) noexcept {
  // release: the process was sampled before it goes on
  board_->seen.store(phase, std::memory_order_release);
}

std::optional<TimelinePoint> CellWatch::sample(const char* phase, bool rests) const {
  TimelinePoint point;
  point.phase = phase;
  const int process = board_->process.load(std::memory_order_relaxed);  // after the acquire above
  point.t_s = load_began_s_ > 0 ? now_s() - load_began_s_ : 0;
  // A thread may report a free before another reports the allocation, so the sum may be negative.
  const std::uint64_t live = board_->live_bytes.load(std::memory_order_relaxed);
  if (static_cast<std::int64_t>(live) > 0) point.live_bytes = live;
  std::string stat = read_proc(process, "stat");
  std::size_t name_end = stat.rfind(')');  // the name may contain anything
  if (name_end == std::string::npos) return {};
  std::string_view fields = std::string_view(stat).substr(name_end + 2);
  // After the name: state, ppid, pgrp, session, tty, tpgid, flags, minflt, cminflt, majflt.
  point.minor_faults = number_at(fields, 7);
  point.major_faults = number_at(fields, 9);
  if (rests) {
    std::string rollup = read_proc(process, "smaps_rollup");
    point.rss_bytes = without_tables(kilobytes_of(rollup, "Rss:"));
    point.pss_bytes = without_tables(kilobytes_of(rollup, "Pss:"));
    if (point.rss_bytes > 0) return point;
    point.pss_bytes.reset();  // the kernel does not provide it
  }
  std::string statm = read_proc(process, "statm");
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  point.rss_bytes = without_tables(number_at(statm, 1) * page_bytes);
  return point.rss_bytes > 0 ? std::optional(point) : std::nullopt;
}

std::uint64_t CellWatch::without_tables(std::uint64_t bytes) const noexcept {
  return bytes - std::min(bytes, board_->table_bytes.load(std::memory_order_relaxed));
}

std::vector<TimelinePoint> CellWatch::timeline() const {
  std::vector<TimelinePoint> all;
  if (ready_) all.push_back(*ready_);
  all.insert(all.end(), load_.begin(), load_.end());
  if (loaded_) all.push_back(*loaded_);
  for (const auto* part : {&freeing_, &after_}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

}  // namespace strata::cli
