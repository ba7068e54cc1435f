#include "central/central.h"

#include <algorithm>

namespace strata {
namespace {

// Chosen: what a shard with threads keeps of a class before another shard may take a span of it.
constexpr std::size_t kSpansToSpare = 2;
// Chosen: threads get batches this large where objects come and go in batches. Where they come and
// go at random, a bin this large is rare, and the cost of a shard for it would show.
constexpr std::size_t kBatchBytes = std::size_t{32} << 10;
constexpr std::size_t kBatchOfSmall = 1024;
// Chosen: what grown transfer caches may hold while the heap grows.
constexpr std::size_t kGrownTransferBytes = 1024 * 1024;
// Chosen: how much the heap has to change, in bytes and as a part of it, before grown transfer
// caches are checked again.
constexpr std::size_t kGrownLookBytes = kGrownTransferBytes / 4;
constexpr std::size_t kGrownLookPart = 128;
// Chosen: how much may be free in spans, in bytes and as a part of the heap, before holes are
// decommitted.
constexpr std::size_t kHolesFromBytes = std::size_t{4} << 20;
constexpr std::size_t kHolesFromPart = 8;
// Chosen: in a large heap, this part of it is exchanged for holes at a time, if it is more than
// kHolesAtOnce.
constexpr std::size_t kHolesAtOncePart = 256;
// Chosen: a larger free object is a hole by itself, and may be the next one handed out.
constexpr std::size_t kMostBytesForHoles = 2048;

}  // namespace

void Central::set_most_shards(unsigned count, unsigned processors) noexcept {
  LockGuard guard(lock_);
  most_ = std::clamp(count, 1u, kMostShards);
  processors_ = processors;
  lanes_ = std::clamp(processors, 1u, CentralShard::kMostLanes);
  first_.set_lanes(lanes_);
}

std::size_t Central::claim(Place& place, unsigned size_class, void** end,
                           std::size_t count) noexcept {
  CentralShard* shard = &place.shard_of(size_class);
  Tried claimed = shard->try_claim(size_class, end, count, place.lane_of(size_class),
                                   claimed_first(size_class));
  if (claimed.was_busy) [[unlikely]] {
    CentralShard& busy = *shard;
    note_met(place, size_class);
    shard = &place.shard_of(size_class);
    if (claimed.count == 0)
      claimed.count = claim_past(busy, shard == &busy, size_class, end, count);
  } else if (place.met_ != 0) {
    --place.met_;
  }
  if (claimed.count == 0) {
    const bool is_apart = shard_count() != 1 && claims_apart(place, *shard, size_class, count);
    claimed.count = claim_elsewhere(*shard, size_class, end, count, is_apart);
  } else {
    exchange_holes();
  }
  if (claimed.count != 0 && shard_count() != 1)
    shard->note_claimed(size_class, claimed.count, place.lane_of(size_class));
  if (is_batch(size_class, claimed.count)) [[unlikely]]
    note_batch(place, *shard, size_class);
  return claimed.count;
}

std::size_t Central::claim(unsigned size_class, void** end, std::size_t count) noexcept {
  const std::size_t claimed = first_.claim(size_class, end, count);
  return claimed != 0 ? claimed : claim_elsewhere(first_, size_class, end, count, false);
}

/// Whether the thread is to get objects from the shard's own spans only. Right after a class has
/// moved, its bin is small and its claims are of few objects each; they stay apart, too.
bool Central::claims_apart(const Place& place, const CentralShard& shard, unsigned size_class,
                           std::size_t count) const noexcept {
  // With the first shard, which threads share, there is one more than threads that run at once.
  const bool all_run = processors_ > kFewProcessors && shard_count() <= processors_ + 1;
  if (all_run && place.has_moved(size_class) && shares_lines(size_class)) return true;
  return keeps_apart(size_class) &&
         (is_batch(size_class, count) || shard.user(size_class) == &place);
}

/// Which objects of a span are claimed first: those in unused lines, once there have been several
/// threads and there may be processors for them.
CentralList::First Central::claimed_first(unsigned size_class) const noexcept {
  const bool is_apart = processors_ > kFewProcessors && CentralShard::shares_edges(size_class) &&
                        (shard_count() != 1 || first_.threads() > 1);
  return is_apart ? CentralList::First::kWholeLines : CentralList::First::kAny;
}

bool Central::is_batch(unsigned size_class, std::size_t count) noexcept {
  return count >= kLeastBatch &&
         (count * SizeClassMap::bytes_of(size_class) >= kBatchBytes || count >= kBatchOfSmall);
}

/// Claims from another shard whose list of the class is not locked. If there is none, waits for the
/// busy shard: the heap must not grow beside free objects. In a large heap, waits only if it
/// `may_wait` (the shard is the thread's own) and the shard has more than a little.
std::size_t Central::claim_past(CentralShard& busy, bool may_wait, unsigned size_class, void** end,
                                std::size_t count) noexcept {
  const auto try_claim = [&](CentralShard& other) -> std::size_t {
    if (other.free_objects(size_class) == 0) return 0;
    return other.try_claim(size_class, end, count, 0, claimed_first(size_class)).count;
  };
  if (const std::size_t claimed = first_of_others(busy.index(), try_claim)) return claimed;
  const std::size_t free_bytes = busy.free_objects(size_class) * SizeClassMap::bytes_of(size_class);
  const std::size_t little = kSpansToSpare * span_pages_of(size_class) * kPageBytes;
  const bool waits = is_large() ? may_wait && free_bytes > little : free_bytes != 0;
  return waits ? busy.claim(size_class, end, count) : 0;
}

/// Claims for a shard that has no free object of the class: from idle memory first, so that the
/// heap grows last.
/// \param is_apart  only from the shard's own spans, as long as there is memory
std::size_t Central::claim_elsewhere(CentralShard& shard, unsigned size_class, void** end,
                                     std::size_t count, bool is_apart) noexcept {
  CentralList* const list = shard.make_list(size_class);
  if (list == nullptr) return claim_the_last(shard, size_class, end, count);
  const bool is_alone = shard_count() == 1;
  const unsigned spared = is_apart ? size_class : 0;
  const PagePlace at(shard.index());
  if (!is_alone) {
    std::size_t claimed =
        claim_from_others(*list, end, count, is_apart ? Need::kOfItsOwn : Need::kUsual);
    if (claimed == 0 && !is_apart) {
      claimed = first_of_others(shard.index(), [&](CentralShard& other) {
        return other.try_lend(size_class, end, count);
      });
    }
    if (claimed != 0) return claimed;
  }
  Span* span = make_span_of_idle_pages(size_class, at, spared);
  if (span == nullptr && !is_alone && !is_apart) {
    const std::size_t claimed = claim_from_others(*list, end, count, Need::kUrgent);
    if (claimed != 0) return claimed;
  }
  if (span == nullptr && empty_grown_transfer(Look::kIfDue)) {
    const std::size_t claimed = list->try_claim(end, count).count;
    if (claimed != 0) return claimed;
    span = make_span_of_idle_pages(size_class, at, spared);
  }
  if (span == nullptr) span = spans_.create(size_class, PageHeap::Pages::kAny, at);
  if (span == nullptr) {
    return is_apart ? claim_elsewhere(shard, size_class, end, count, false)
                    : claim_the_last(shard, size_class, end, count);
  }
  const std::size_t claimed = list->add_and_claim(*span, end, count);
  exchange_holes();
  return claimed;
}

/// Claims from any shard, the thread's own first, waiting for locks: there is no memory for another
/// span.
[[gnu::cold, gnu::noinline]] std::size_t Central::claim_the_last(CentralShard& shard,
                                                                 unsigned size_class, void** end,
                                                                 std::size_t count) noexcept {
  const auto claim = [&](CentralShard& each) {
    return each.free_objects(size_class) != 0 ? each.claim(size_class, end, count) : 0;
  };
  const std::size_t claimed = claim(shard);
  return claimed != 0 ? claimed : first_of_others(shard.index(), claim);
}

void Central::exchange_holes_if_due() noexcept {
  const std::size_t seen = spans_.growth_bytes();
  const bool is_due = seen >= spans_.used_bytes() / kHolesAtOncePart;
  next_hole_look_.store(is_due ? kHolesAtOnce : seen + kHolesAtOnce, std::memory_order_relaxed);
  if (!is_due) return;
  const std::size_t growth = spans_.take_growth();
  if (pending_hint() < std::max(kHolesFromBytes, spans_.used_bytes() / kHolesFromPart)) return;
  std::size_t bytes = exchange_.take_due(growth);
  if (bytes == 0) return;
  const unsigned lists = shard_count() * SizeClassMap::kCount;
  unsigned at = next_for_holes_.load(std::memory_order_relaxed);
  for (unsigned left = lists; left != 0; --left, ++at) {
    at = at < lists ? at : 0;
    const unsigned size_class = at % SizeClassMap::kCount;
    if (SizeClassMap::bytes_of(size_class) > kMostBytesForHoles) continue;
    CentralList* const list = shards_[at / SizeClassMap::kCount]->list(size_class);
    if (list == nullptr || list->pending_bytes() < 2 * list->span_bytes()) continue;
    // Some spans at a time, since others may wait for the list.
    std::size_t returned;
    do {
      returned = list->decommit_holes_of_emptiest(bytes);
      if (returned != 0) exchange_.note_returned(returned, spans_.refilled_bytes());
      bytes -= std::min(returned, bytes);
    } while (returned != 0 && bytes != 0);
    if (bytes == 0) break;
  }
  next_for_holes_.store(at, std::memory_order_relaxed);
}

void* Central::claim_at_random(unsigned size_class, std::uint64_t random) noexcept {
  CentralList* const list = first_.make_list(size_class);
  if (list == nullptr) return nullptr;
  for (;;) {
    if (void* object = list->claim_at_random(random)) return object;
    Span* span = make_span_of_idle_pages(size_class);
    if (span == nullptr) span = spans_.create(size_class);
    if (span == nullptr) return nullptr;
    list->add(*span);
  }
}

/// Makes a span without holding more memory than before: destroys kept spans to make room for it,
/// except those of the class `spared`.
Span* Central::make_span_of_idle_pages(unsigned size_class, PagePlace place,
                                       unsigned spared) noexcept {
  CentralList* keeper;
  do {
    keeper = find_kept(spared);
    if (keeper == nullptr && shard_count() == 1) return nullptr;
    if (Span* span = spans_.create(size_class, PageHeap::Pages::kIdle, place)) return span;
    if (keeper != nullptr) keeper->destroy_kept(1);
  } while (keeper != nullptr);
  return nullptr;
}

/// Takes over spans of the class from another shard and claims from them. A shard without threads
/// gives any span. Other shards give spans without a claimed object, unless the need is kOfItsOwn.
/// If the need is kUrgent (the heap would grow otherwise), a shard that has enough gives any span.
std::size_t Central::claim_from_others(CentralList& list, void** end, std::size_t count,
                                       Need need) noexcept {
  const std::size_t object_bytes = SizeClassMap::bytes_of(list.size_class());
  const std::size_t enough = kSpansToSpare * list.span_bytes() / object_bytes;
  return first_of_others(list.shard(), [&](CentralShard& other) -> std::size_t {
    CentralList* const others = other.list(list.size_class());
    if (others == nullptr) return 0;
    // Last what each batch of theirs writes: to read it takes the line from their processor.
    const bool may_take_kept = need != Need::kOfItsOwn && others->kept_spans() != 0;
    const bool has_threads = other.threads() != 0;
    if (!may_take_kept && has_threads && need != Need::kUrgent) return 0;
    const std::size_t free_objects = others->free_objects();
    if (free_objects == 0) return 0;
    const bool may_take_any = !has_threads || (need == Need::kUrgent && free_objects >= enough);
    if (!may_take_any && !may_take_kept) return 0;
    const auto which = may_take_any ? CentralList::Which::kEmptiest : CentralList::Which::kKept;
    return list.claim_from(*others, which, end, count);
  });
}

CentralList* Central::find_kept(unsigned spared) const noexcept {
  const unsigned count = shard_count();
  for (unsigned i = 0; i < count; ++i) {
    if (CentralList* const keeper = shards_[i]->find_kept(spared)) return keeper;
  }
  return nullptr;
}

std::size_t Central::destroy_kept(std::size_t bytes) noexcept {
  std::size_t destroyed = 0;
  while (destroyed < bytes) {
    CentralList* const keeper = find_kept();
    if (keeper == nullptr) {
      if (empty_grown_transfer(Look::kAlways)) continue;
      break;
    }
    const std::size_t span_bytes = keeper->span_bytes();
    destroyed +=
        keeper->destroy_kept((bytes - destroyed + span_bytes - 1) / span_bytes) * span_bytes;
  }
  return destroyed;
}

void Central::release_unneeded() noexcept {
  for_each_shard([&](CentralShard& shard) {
    shard.take_unneeded([this](unsigned size_class, void** objects, std::size_t count) {
      release_to_spans(size_class, objects, count, Was::kIdle);
    });
  });
  for_each_shard([](CentralShard& shard) {
    shard.for_each_list([](CentralList& list) {
      list.look();
      list.destroy_unneeded();
      list.decommit_holes(CentralList::Spans::kQuiet);
    });
  });
}

std::size_t Central::release_all() noexcept {
  flush_transfer();
  std::size_t returned = 0;
  for_each_shard([&](CentralShard& shard) {
    shard.for_each_list([&](CentralList& list) {
      list.destroy_kept(~std::size_t{0});
      returned += list.decommit_holes(CentralList::Spans::kAll);
    });
  });
  return returned;
}

void Central::flush_transfer(unsigned end_class) noexcept {
  for_each_shard([&](CentralShard& shard) {
    shard.take_all(end_class, [this](unsigned size_class, void** objects, std::size_t count) {
      release_to_spans(size_class, objects, count);
    });
  });
}

/// Empties grown transfer caches into the spans, if they hold enough and no other thread is doing
/// so. The check reads lines that all threads write, so after one that found too little, the next
/// is due once the heap has changed by enough.
/// \returns  whether anything was moved
bool Central::empty_grown_transfer(Look look) noexcept {
  const std::size_t used = spans_.used_bytes();
  if (used < kGrownTransferBytes) return false;
  const std::size_t seen = used_without_grown_.load(std::memory_order_relaxed);
  const std::size_t change = used > seen ? used - seen : seen - used;
  if (look == Look::kIfDue && change < std::max(kGrownLookBytes, used / kGrownLookPart))
    return false;
  std::size_t grown = 0;
  for_each_shard([&](const CentralShard& shard) { grown += shard.grown_transfer_bytes(); });
  if (grown >= kGrownTransferBytes) return empty_what_has_grown();
  used_without_grown_.store(used, std::memory_order_relaxed);
  return false;
}

[[gnu::noinline]] bool Central::empty_what_has_grown() noexcept {
  // Two at once would wait for each other at the same lists.
  if (!emptying_.try_lock()) return false;
  bool has_moved = false;
  for_each_shard([&](CentralShard& shard) {
    shard.take_grown([&](unsigned size_class, void** objects, std::size_t count) {
      has_moved = true;
      release_to_spans(size_class, objects, count);
    });
  });
  emptying_.unlock();
  return has_moved;
}

std::size_t Central::idle_bytes() const noexcept {
  std::size_t bytes = 0;
  for_each_shard(
      [&](const CentralShard& shard) { bytes += shard.pending_bytes() + shard.transfer_bytes(); });
  return bytes;
}

std::size_t Central::free_bytes() const noexcept {
  std::size_t bytes = 0;
  for_each_shard(
      [&](const CentralShard& shard) { bytes += shard.free_bytes() + shard.transfer_bytes(); });
  return bytes;
}

std::size_t Central::settle_pending_hint() noexcept {
  for_each_shard([](CentralShard& shard) { shard.tell_tally(); });
  return pending_hint();
}

Central::ClassStatistics Central::statistics(unsigned size_class) noexcept {
  ClassStatistics sum{};
  for_each_shard([&](CentralShard& shard) {
    const ClassStatistics part = shard.statistics(size_class);
    sum.spans.spans += part.spans.spans;
    sum.spans.pages += part.spans.pages;
    sum.spans.claimed_objects += part.spans.claimed_objects;
    sum.spans.free_objects += part.spans.free_objects;
    sum.spans.kept_spans += part.spans.kept_spans;
    sum.spans.waits += part.spans.waits;
    sum.in_transfer += part.in_transfer;
    sum.transfer_waits += part.transfer_waits;
  });
  return sum;
}

void Central::check_invariants() noexcept {
  for_each_shard([](CentralShard& shard) { shard.check_invariants(); });
}

}  // namespace strata
