#include "advise/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "explain/explain_text.h"
#include "output/units.h"
#include "shared/advised_sizes.h"

namespace strata::cli {
namespace {

// Chosen: no change to a place below both is worth a line of code.
constexpr double kLeastShareOfCalls = 0.02;
constexpr double kLeastShareOfPeak = 0.05;
constexpr std::uint64_t kLeastBirths = 100;
/// The most that an arena may hold, as a multiple of the live bytes.
constexpr double kMostArenaWaste = 1.25;
/// If a place allocates this many times its live bytes in all, a heap of a fixed size fits.
constexpr std::uint64_t kTurnover = 4;
constexpr double kMostly = 0.9;
/// Slots refilled with random sizes look like growth in 0.29 of cases (explanation_test).
constexpr double kOften = 0.65;

bool is_one_size(const PlaceSums& sums) { return sums.smallest == sums.largest; }

std::string size_text(const PlaceSums& sums) {
  return is_one_size(sums)
             ? bytes_text(sums.largest)
             : fmt::format("{} to {}", bytes_text(sums.smallest), bytes_text(sums.largest));
}

std::string blocks_change(const PlaceSums& sums) {
  const std::uint64_t blocks = advised::with_room(sums.peak_live);
  const std::uint64_t bytes = advised::block_bytes(sums.largest);
  return fmt::format(
      "strata::PageArena arena({});  // addresses; memory as it is touched\n"
      "strata::BlockAllocator nodes(arena, {}, {});{}\n"
      "Node* node = new (nodes.allocate()) Node(...);  // nullptr: all are taken\n"
      "node->~Node();\n"
      "nodes.deallocate(node);\n"
      "// strata::ObjectPool<Node> has create() and destroy(), grows, and saves somewhat less",
      advised::blocks_arena_bytes(sums.largest, blocks),
      bytes > sums.largest ? std::to_string(bytes) : "sizeof(Node)", blocks,
      bytes > sums.largest ? "  // no block is smaller" : "");
}

std::string bitmap_change(const PlaceSums& sums, std::uint32_t threads) {
  const std::uint64_t leaves = advised::bitmap_leaves(threads);
  return fmt::format(
      "static strata::BitmapPool<{}, {}{}> messages;\n"
      "void* block = messages.allocate();  // any thread; nullptr: all are out\n"
      "messages.deallocate(block);         // any other thread",
      sums.largest, advised::bitmap_blocks(sums.peak_live, threads),
      leaves > advised::kUsualLeaves ? fmt::format(", 0, {}", leaves) : "");
}

std::string heaps_change(const PlaceSums& sums) {
  const std::uint64_t arena_bytes = advised::heaps_arena_bytes(sums.largest);
  const std::string heaps =
      arena_bytes == advised::kUsualHeapsArenaBytes
          ? "static strata::ThreadHeaps heaps;  // ThreadHeaps::Options bounds what they take\n"
          : fmt::format(
                "strata::ThreadHeaps::Options options;\n"
                "options.arena_bytes = {};  // no request may be larger\n"
                "static strata::ThreadHeaps heaps(options);\n",
                arena_bytes);
  return heaps +
         "void* buffer = heaps.allocate(bytes);  // any thread\n"
         "heaps.deallocate(buffer);              // any other thread";
}

std::vector<Remedy> remedies_of(const PlaceSums& sums) {
  std::vector<Remedy> remedies;
  if (sums.births < kLeastBirths || sums.aligned > 0) return remedies;
  const bool is_local = !sums.has_many_threads && sums.foreign_deaths == 0;
  if (sums.foreign_deaths == 0 && share_of(sums.grown, sums.births) >= kOften) {
    remedies.push_back(Remedy::kReserve);
  }
  if (sums.resized > 0) return remedies;  // the toolkit does not resize
  if (sums.foreign_deaths == 0 && sums.is_one_at_a_time &&
      share_of(sums.temporaries, sums.births) >= kMostly) {
    remedies.push_back(Remedy::kReuse);
  }
  const bool dies_together = static_cast<double>(sums.largest_run_bytes) <=
                             kMostArenaWaste * static_cast<double>(sums.peak_live_bytes);
  if (is_local && dies_together && sums.peak_live >= kLeastBirths) {
    remedies.push_back(Remedy::kArena);
  }
  if (is_one_size(sums) && sums.largest > 0) {
    remedies.push_back(is_local ? Remedy::kBlocks : Remedy::kBitmap);
  }
  const bool is_bounded = sums.bytes / kTurnover >= sums.peak_live_bytes;
  if (!is_one_size(sums) && is_bounded && sums.peak_live >= kLeastBirths) {
    remedies.push_back(is_local ? Remedy::kHeap : Remedy::kHeaps);
  }
  return remedies;
}

}  // namespace

const char* Candidate::route() const noexcept {
  constexpr const char* kRoutes[] = {"arena", "block", "bitmap", "heap", "heaps", "none", "reuse"};
  return kRoutes[static_cast<unsigned>(remedy)];
}

std::string Candidate::pattern(const PlaceSums& sums) const {
  const std::string objects = fmt::format("{} objects of {}", sums.births, size_text(sums));
  switch (remedy) {
    case Remedy::kArena:
      return fmt::format(
          "{}, in one thread, that die together: at most {} live at once, of {} allocated since "
          "none did",
          objects, bytes_text(sums.peak_live_bytes), bytes_text(sums.largest_run_bytes));
    case Remedy::kBlocks:
      return fmt::format("{}, all in one thread; at most {} live at once", objects, sums.peak_live);
    case Remedy::kBitmap:
      return fmt::format("{}, of which {} are freed by another thread; at most {} live at once",
                         objects, sums.foreign_deaths, sums.peak_live);
    case Remedy::kHeap:
      return fmt::format("{}, all in one thread; {} in all, at most {} live at once", objects,
                         bytes_text(sums.bytes), bytes_text(sums.peak_live_bytes));
    case Remedy::kHeaps:
      return fmt::format(
          "{}, of several threads, of which {} are freed by another; {} in all, at most {} live at "
          "once",
          objects, sums.foreign_deaths, bytes_text(sums.bytes), bytes_text(sums.peak_live_bytes));
    case Remedy::kReserve:
      return fmt::format("{}, of which {} take the place of a smaller one", objects, sums.grown);
    case Remedy::kReuse:
      return fmt::format(
          "{}, of which {} are freed before their thread allocates again; no thread has two at "
          "once",
          objects, sums.temporaries);
  }
  return objects;
}

std::string Candidate::change(const PlaceSums& sums) const {
  if (sums.zeroed == 0 || remedy == Remedy::kReserve) return code(sums);
  return code(sums) + fmt::format("\n// zero the memory of those that calloc made: {} of {}",
                                  sums.zeroed, sums.births);
}

std::string Candidate::code(const PlaceSums& sums) const {
  switch (remedy) {
    case Remedy::kArena:
      return fmt::format(
          "strata::PageArena arena({0});  // addresses; memory as it is touched\n"
          "strata::MemoryResource<strata::PageArena> memory(arena, "
          "std::pmr::new_delete_resource());\n"
          "std::pmr::polymorphic_allocator<> nodes(&memory);\n"
          "Node* node = nodes.new_object<Node>(...);  // or std::pmr containers over &memory\n"
          "// when all of them are done with: memory.reset();",
          advised::arena_bytes(sums.largest_run_bytes));
    case Remedy::kBlocks:
      return blocks_change(sums);
    case Remedy::kBitmap:
      return bitmap_change(sums, threads);
    case Remedy::kHeap:
      return fmt::format(
          "strata::CoalescingHeap heap({});  // addresses; memory as it is touched\n"
          "void* buffer = heap.allocate(bytes);  // nullptr: no free block is large enough\n"
          "heap.deallocate(buffer);",
          advised::heap_bytes(sums.peak_live_bytes, sums.peak_live));
    case Remedy::kHeaps:
      return heaps_change(sums);
    case Remedy::kReserve:
      return fmt::format(
          "values.reserve(count);  // before it is filled; here up to {} were needed",
          bytes_text(sums.largest));
    case Remedy::kReuse:
      return "static thread_local std::unique_ptr<std::byte[]> buffer;  // or members\n"
             "static thread_local std::size_t bytes = 0;\n"
             "if (bytes < needed) {\n"
             "  buffer.reset(new std::byte[needed]);  // not zeroed; kept for the next time\n"
             "  bytes = needed;\n"
             "}";
  }
  return {};
}

std::vector<Candidate> find_candidates(const Explanation& explanation, std::size_t most_places) {
  const std::vector<PlaceSums>& sums = explanation.sums();
  std::vector<std::uint32_t> order(sums.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto cost = [&](std::uint32_t place) {
    return share_of(sums[place].births, explanation.births()) +
           share_of(sums[place].at_peak_bytes, explanation.peak().bytes);
  };
  std::ranges::stable_sort(order, std::greater(), cost);
  std::vector<Candidate> candidates;
  std::size_t places = 0;
  for (const std::uint32_t place : order) {
    if (places == most_places) break;
    if (share_of(sums[place].births, explanation.births()) < kLeastShareOfCalls &&
        share_of(sums[place].at_peak_bytes, explanation.peak().bytes) < kLeastShareOfPeak) {
      continue;
    }
    const std::vector<Remedy> remedies = remedies_of(sums[place]);
    for (const Remedy remedy : remedies) {
      candidates.push_back({place, remedy, explanation.history().reader().thread_count()});
    }
    places += !remedies.empty();
  }
  return candidates;
}

}  // namespace strata::cli
