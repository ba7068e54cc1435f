#include "explain/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

namespace strata::cli {
namespace {

constexpr std::size_t kMostChain = 64;

std::size_t chain_of(const Life& life) { return std::min<std::size_t>(life.chain, kMostChain); }

}  // namespace

std::size_t LifeScale::bucket_of(std::uint64_t ns) noexcept {
  if (ns < 1000) return 0;
  const double decades = std::log10(static_cast<double>(ns) / 1000);
  return std::min(kBuckets - 1, 1 + static_cast<std::size_t>(2 * decades));
}

double LifeScale::upper_s(std::size_t bucket) noexcept {
  return 1e-6 * std::pow(10, static_cast<double>(bucket) / 2);
}

std::size_t SizeScale::bucket_of(std::uint64_t bytes) noexcept {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes)), kBuckets - 1);
}

std::uint64_t SizeScale::lower(std::size_t bucket) noexcept {
  return bucket == 0 ? 0 : std::uint64_t{1} << (bucket - 1);
}

Explanation::Explanation(History& history, std::vector<std::string> skipped,
                         const OnEvents& on_events)
    : history_(history), places_(history.reader(), std::move(skipped)), chains_(kMostChain + 1) {
  while (history_.next()) {
    if (++events_ % kEventsPerReport == 0) on_events(events_);
    if (history_.is_death()) end_object();
    if (history_.is_birth()) begin_object();
    note_growth();
    if (!history_.is_birth() && trace::begins_object(history_.event().operation)) ++failures_;
    note_moment();
  }
  finish();
}

PlaceSums& Explanation::place_of(std::uint32_t stack) {
  const std::uint32_t place = places_.of(stack);
  if (place >= sums_.size()) sums_.resize(place + 1);
  return sums_[place];
}

Explanation::StackSums& Explanation::stack_of(std::uint32_t stack) {
  if (stack >= stacks_.size()) stacks_.resize(stack + 1);
  return stacks_[stack];
}

/// A place's live objects at the program's peak are fixed when the place first changes after the
/// peak.
void Explanation::keep_peak(PlaceSums& place) {
  if (place.peak_event_ == peak_event_) return;
  place.peak_event_ = peak_event_;
  place.at_peak = place.live;
  place.at_peak_bytes = place.live_bytes;
}

void Explanation::keep_peak(StackSums& stack) {
  if (stack.peak_event == peak_event_) return;
  stack.peak_event = peak_event_;
  stack.at_peak_bytes = stack.live_bytes;
}

void Explanation::end_object() {
  const trace::Event& event = history_.event();
  const Life& life = history_.ended();
  PlaceSums& place = place_of(life.stack);
  keep_peak(place);
  StackSums& stack = stack_of(life.stack);
  keep_peak(stack);
  stack.live_bytes -= life.size_bytes;
  ++place.deaths;
  place.live_bytes -= life.size_bytes;
  if (--place.live == 0) place.run_bytes_ = 0;
  place.temporaries += history_.is_temporary();
  place.resized += event.operation == trace::Operation::kRealloc;
  const bool is_foreign = life.thread != event.thread;
  place.foreign_deaths += is_foreign;
  if (place.is_one_at_a_time) place.is_live_in_[life.thread] = false;
  const std::size_t bucket = LifeScale::bucket_of(history_.lifetime_ns());
  ++place.lives[bucket];
  ++heat_[SizeScale::bucket_of(life.size_bytes)][bucket];
  const std::pair<std::uint32_t, std::uint32_t> threads(life.thread, event.thread);
  if (threads != last_passing_) {
    last_passing_ = threads;
    last_passing_sums_ = &passing_[threads];
  }
  ++last_passing_sums_->objects;
  last_passing_sums_->bytes += life.size_bytes;
}

void Explanation::begin_object() {
  const trace::Event& event = history_.event();
  PlaceSums& place = place_of(event.stack);
  const std::uint64_t bytes = history_.born().size_bytes;
  keep_peak(place);
  StackSums& stack = stack_of(event.stack);
  keep_peak(stack);
  stack.bytes += bytes;
  stack.live_bytes += bytes;
  ++births_;
  allocated_bytes_ += bytes;
  ++sizes_[SizeScale::bucket_of(bytes)];
  if (place.births++ == 0) place.first_thread = event.thread;
  place.has_many_threads |= place.first_thread != event.thread;
  place.bytes += bytes;
  place.live_bytes += bytes;
  place.peak_live = std::max(place.peak_live, ++place.live);
  place.peak_live_bytes = std::max(place.peak_live_bytes, place.live_bytes);
  place.smallest = std::min(place.smallest, bytes);
  place.largest = std::max(place.largest, bytes);
  place.run_bytes_ += bytes;
  place.largest_run_bytes = std::max(place.largest_run_bytes, place.run_bytes_);
  place.zeroed += event.operation == trace::Operation::kCalloc;
  if (place.is_one_at_a_time) begin_alone(place, event.thread);
  place.aligned += event.alignment > alignof(std::max_align_t);
  const bool is_resize = event.operation == trace::Operation::kRealloc && history_.is_death();
  place.reallocs += is_resize;
  ++chains_[chain_of(history_.born())];
  if (is_resize) --chains_[chain_of(history_.ended())];
  peak_event_ = history_.peak_event();
}

/// Called only while is_one_at_a_time is true.
void Explanation::begin_alone(PlaceSums& place, std::uint32_t thread) {
  if (place.is_live_in_.size() <= thread) place.is_live_in_.resize(thread + 1);
  if (place.is_live_in_[thread]) {
    place.is_one_at_a_time = false;
    place.is_live_in_ = {};
  } else {
    place.is_live_in_[thread] = true;
  }
}

void Explanation::note_growth() {
  constexpr std::uint32_t kNone = GrowthFinder::kNoPlace;
  const std::uint32_t born = history_.is_birth() ? places_.of(history_.event().stack) : kNone;
  const std::uint32_t ended = history_.is_death() ? places_.of(history_.ended().stack) : kNone;
  const std::optional<GrowthFinder::Step> step = growth_.find(history_, born, ended);
  if (!step) return;
  std::uint64_t& grown = sums_[born != kNone ? born : ended].grown;
  if (step->is_resize || step->number > GrowthFinder::kLeastSteps) {
    ++grown;
  } else if (step->number == GrowthFinder::kLeastSteps) {
    grown += GrowthFinder::kLeastSteps;  // count the first steps, too
  }
}

void Explanation::note_moment() {
  const Moment& moment = history_.live();
  const std::uint64_t now = moment.time_ns;
  if (!stretches_.empty() && now / stretch_ns_ == stretches_.back().after.time_ns / stretch_ns_) {
    join(stretches_.back(), {moment, moment, moment});
    return;
  }
  if (stretches_.size() < kMostStretches) {
    Moment before = stretches_.empty() ? Moment() : stretches_.back().after;
    before.time_ns = now;
    stretches_.push_back({before, moment, moment});
    return;
  }
  stretch_ns_ *= 2;
  std::vector<Stretch> kept;
  for (const Stretch& each : stretches_) {
    if (!kept.empty() &&
        each.after.time_ns / stretch_ns_ == kept.back().after.time_ns / stretch_ns_) {
      join(kept.back(), each);
    } else {
      kept.push_back(each);
    }
  }
  stretches_ = std::move(kept);
  note_moment();
}

void Explanation::join(Stretch& stretch, const Stretch& next) {
  if (next.highest.bytes >= stretch.highest.bytes) stretch.highest = next.highest;
  stretch.after = next.after;
}

/// Names the callers of each place from its stacks with the largest shares.
void Explanation::name_callers() {
  constexpr std::size_t kMostStacks = 3;
  const auto weight = [&](std::uint32_t stack) {
    return std::pair(stacks_[stack].at_peak_bytes, stacks_[stack].bytes);
  };
  std::vector<std::vector<std::uint32_t>> heaviest(sums_.size());
  for (std::uint32_t stack = 1; stack < stacks_.size(); ++stack) {
    keep_peak(stacks_[stack]);
    if (stacks_[stack].bytes == 0) continue;
    std::vector<std::uint32_t>& found = heaviest[places_.of(stack)];
    const auto after = std::ranges::find_if(
        found, [&](std::uint32_t other) { return weight(other) < weight(stack); });
    found.insert(after, stack);
    if (found.size() > kMostStacks) found.pop_back();
  }
  for (std::uint32_t place = 0; place < heaviest.size(); ++place) {
    const bool is_at_peak = sums_[place].at_peak_bytes > 0;
    for (const std::uint32_t stack : heaviest[place]) {
      const StackSums& sums = stacks_[stack];
      const auto part = static_cast<double>(is_at_peak ? sums.at_peak_bytes : sums.bytes);
      const auto whole =
          static_cast<double>(is_at_peak ? sums_[place].at_peak_bytes : sums_[place].bytes);
      if (part > 0) places_.add_callers(place, stack, part / whole);
    }
  }
}

void Explanation::finish() {
  for (PlaceSums& place : sums_) {
    keep_peak(place);
    place.lives[LifeScale::kNever] = place.live;
  }
  name_callers();
  for (std::size_t size = 0; size < SizeScale::kBuckets; ++size) {
    auto& lives = heat_[size];
    lives[LifeScale::kNever] =
        sizes_[size] - std::accumulate(lives.begin(), lives.end(), std::uint64_t{0});
  }
}

std::vector<Moment> Explanation::course() const {
  std::vector<Moment> course;
  const auto add = [&](const Moment& moment) {
    if (course.empty() || course.back() != moment) course.push_back(moment);
  };
  for (const Stretch& stretch : stretches_) {
    add(stretch.before);
    add(stretch.highest);
    add(stretch.after);
  }
  return course;
}

std::string Explanation::thread_name(std::uint32_t thread) const {
  for (const trace::Thread& each : history_.reader().threads()) {
    if (each.number == thread && !each.name.empty()) {
      return fmt::format("{} {}", thread, each.name);
    }
  }
  return std::to_string(thread);
}

}  // namespace strata::cli
