#include "harness/cell.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "harness/own_memory.h"
#include "harness/probe.h"
#include "shared/findings.h"

namespace strata::cell {
namespace {

/// Where report_…() write, from any thread; set before any thread runs.
int findings_fd = STDOUT_FILENO;

Board* map_board(int fd) {
  void* page = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) throw std::runtime_error("the board cannot be mapped");
  return static_cast<Board*>(page);
}

/// Derives a seed for each thread, so that their draws differ.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t thread) {
  std::uint64_t x = seed + (thread + 1) * 0x9e3779b97f4a7c15;  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

[[noreturn]] void end_with(void (FindingsWriter::*verdict)(const char*) noexcept,
                           const char* sentence) noexcept {
  FindingsWriter findings(findings_fd);
  (findings.*verdict)(sentence);
  findings.end();
  ::_exit(0);  // no destructors: memory may be corrupted
}

const Load& load_of(const std::string& name) {
  const auto found = loads().find(name);
  if (found == loads().end()) throw std::invalid_argument("unknown scenario '" + name + "'");
  return found->second;
}

/// Returns the plan with a value for every option of the scenario.
CellPlan completed(const Scenario& scenario, CellPlan plan) {
  const std::string why = scenario.why_not(plan.options);
  if (!why.empty()) throw std::invalid_argument(why);
  if (plan.seconds <= 0 && plan.ops == 0 && scenario.takes_seconds) {
    throw std::invalid_argument("a load needs --seconds or --ops to end");
  }
  if (plan.threads < 1) throw std::invalid_argument("--threads is below 1");
  plan.options = scenario.values(plan.options);
  return plan;
}

}  // namespace

void report_corruption(const Block& block) noexcept {
  char sentence[96];
  std::snprintf(sentence, sizeof sentence, "a block of %u bytes changed while it was in use",
                static_cast<unsigned>(block.bytes));
  end_with(&FindingsWriter::broken, sentence);
}

void fail_wrong_work(const std::string& sentence) {
  end_with(&FindingsWriter::wrong, sentence.c_str());
}

void report_unfit(const std::string& sentence) {
  end_with(&FindingsWriter::unfit, sentence.c_str());
}

Cell::Cell(CellPlan plan, double entered_s)
    : load_(load_of(plan.scenario)),
      plan_(completed(load_.scenario, std::move(plan))),
      entered_s_(entered_s),
      board_(plan_.board_fd < 0 ? &own_board_ : map_board(plan_.board_fd)) {
  findings_fd = plan_.findings_fd;
  board_->process.store(::getpid(), std::memory_order_relaxed);
  table_bytes = &board_->table_bytes;
  Stopwatch::calibrate();
  worker(0);
}

const std::string& Cell::text(const std::string& option) const {
  for (const auto& [name, value] : plan_.options) {
    if (name == option) return value;
  }
  throw std::logic_error("the scenario declares no option --" + option);
}

std::uint64_t Cell::count(const std::string& option) const { return std::stoull(text(option)); }

double Cell::real(const std::string& option) const { return std::stod(text(option)); }

bool Cell::flag(const std::string& option) const { return text(option) == "yes"; }

LatencyKind Cell::add_latency(const std::string& name) {
  if (latency_names_.size() == kMaxLatencies) throw std::logic_error("too many latencies");
  latency_names_.push_back(name);
  return latency_names_.size() - 1;
}

Worker& Cell::worker(int thread) {
  while (workers_.size() <= static_cast<std::size_t>(thread)) {
    Worker& added = workers_.emplace_back();
    added.thread = static_cast<int>(workers_.size()) - 1;
    added.seed = mixed(plan_.seed, static_cast<std::uint64_t>(added.thread));
  }
  return workers_[static_cast<std::size_t>(thread)];
}

void Cell::rest(Phase phase) {
  board_->phase.store(phase, std::memory_order_release);
  while (board_ != &own_board_ && board_->seen.load(std::memory_order_acquire) != phase) {
    timespec nap{0, 200'000};
    ::nanosleep(&nap, nullptr);
  }
}

void Cell::begin_load() {
  rest(Phase::kReady);
  board_->phase.store(Phase::kLoad, std::memory_order_release);
  start_clock();
}

void Cell::continue_as_copy(int worker) noexcept {
  plan_.sample_rate = 0;
  if (worker > 0) {
    table_bytes = &table_bytes_without_board;
  } else {
    board_->process.store(::getpid(), std::memory_order_relaxed);
  }
}

void Cell::end_load() {
  rest(Phase::kLoaded);
  board_->phase.store(Phase::kFreeing, std::memory_order_release);
}

void Cell::finish() {
  rest(Phase::kAfter);
  board_->phase.store(Phase::kReporting, std::memory_order_release);
  tell_findings();
}

void Cell::metric(const char* name, double value) {
  if (metrics_count_ == kMaxMetrics) throw std::logic_error("too many metrics");
  metrics_[metrics_count_++] = {name, value};
}

void Cell::tell_findings() {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failed = 0;
  for (const Worker& worker : workers_) {
    allocations += worker.allocations;
    frees += worker.frees;
    failed += worker.failed_allocations;
  }
  if (allocations != frees) {
    fail_wrong_work(std::to_string(allocations) + " blocks were allocated and " +
                    std::to_string(frees) + " freed");
  }
  FindingsWriter findings(plan_.findings_fd);
  findings.entered(entered_s_);
  for (std::size_t i = 0; i < metrics_count_; ++i) {
    findings.metric(metrics_[i].first, metrics_[i].second);
  }
  findings.served(allocations, failed);
  findings.timer_cost(Stopwatch::cost_ns());
  for (std::size_t kind = 0; kind < latency_names_.size(); ++kind) {
    OwnMemory<std::uint64_t> buckets(LogBuckets::kCount);
    Latencies sum;
    for (Worker& worker : workers_) {
      Latencies& part = worker.latencies[kind];
      for (std::size_t i = 0; i < part.buckets.size(); ++i) buckets[i] += part.buckets[i];
      sum.count += part.count;
      sum.sum_ps += part.sum_ps;
      sum.max_ps = std::max(sum.max_ps, part.max_ps);
    }
    if (sum.count == 0) continue;
    findings.latency(latency_names_[kind].c_str(), sum.count, sum.sum_ps, sum.max_ps);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i] != 0) findings.bucket(i, buckets[i]);
    }
  }
  findings.end();
}

}  // namespace strata::cell
