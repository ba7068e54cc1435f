#include "explain/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <numeric>

#include "advise/pattern.h"
#include "explain/address_map.h"
#include "explain/explain_page.h"
#include "explain/explain_text.h"
#include "explain/heat.h"
#include "process/temporary_folder.h"
#include "shared/trace/made_trace_test.h"

namespace strata::cli {
namespace {

using trace::Operation;

/// A trace that is written call by call, and its explanation.
class Told {
 public:
  std::uint32_t place(std::uint64_t address) { return made_.writer->add_stack({0, address + 1}); }

  std::uint64_t make(std::uint32_t stack, std::uint64_t bytes, std::uint32_t thread = 0,
                     Operation operation = Operation::kNew, std::uint64_t alignment = 0) {
    made_.writer->add({.operation = operation,
                       .thread = thread,
                       .stack = stack,
                       .time_ns = now_ += 1000,
                       .object = objects_,
                       .size_bytes = bytes,
                       .alignment = alignment});
    return objects_++;
  }
  void end(std::uint64_t object, std::uint32_t thread = 0) {
    made_.writer->add({.operation = Operation::kDelete,
                       .thread = thread,
                       .time_ns = now_ += 1000,
                       .ended = object});
  }
  std::uint64_t resize(std::uint32_t stack, std::uint64_t object, std::uint64_t bytes) {
    made_.writer->add({.operation = Operation::kRealloc,
                       .stack = stack,
                       .time_ns = now_ += 1000,
                       .object = objects_,
                       .ended = object,
                       .size_bytes = bytes});
    return objects_++;
  }
  void wait(std::uint64_t ns) { now_ += ns; }

  /// Ends the trace at the first call.
  const Explanation& explain() {
    if (explanation_ != nullptr) return *explanation_;
    made_.writer->end("reason=exit\n");
    return explain(made_.bytes);
  }
  const Explanation& explain(const std::string& bytes) {
    reader_ = trace::reader_of(bytes);
    history_ = std::make_unique<History>(*reader_);
    explanation_ =
        std::make_unique<Explanation>(*history_, std::vector<std::string>(), [](std::uint64_t) {});
    return *explanation_;
  }

  const PlaceSums& sums(const std::string& name) {
    const std::vector<PlaceName>& names = explain().places().names();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].line.function == name) return explain().sums()[i];
    }
    throw std::out_of_range(name);
  }

  /// The code that is advised for the first place.
  std::string change() {
    const Candidate candidate = find_candidates(explain(), 1).front();
    return candidate.change(explain().sums()[candidate.place]);
  }

  std::vector<Remedy> remedies() {
    std::vector<Remedy> remedies;
    for (const Candidate& candidate : find_candidates(explain(), 10)) {
      remedies.push_back(candidate.remedy);
    }
    return remedies;
  }

 private:
  trace::MadeTrace made_;
  std::uint64_t objects_ = 0;
  std::uint64_t now_ = 0;
  std::unique_ptr<trace::Reader> reader_;
  std::unique_ptr<History> history_;
  std::unique_ptr<Explanation> explanation_;
};

TEST(Explanation, SaysWhatEachPlaceHoldsAtThePeak) {
  Told told;
  const std::uint32_t early = told.place(0x10);
  const std::uint32_t late = told.place(0x20);
  const std::uint64_t first = told.make(early, 1000);
  told.make(early, 50);
  told.end(first);
  told.make(late, 3000);  // the peak
  told.end(told.make(late, 0));
  const Explanation& explanation = told.explain();
  EXPECT_EQ(explanation.peak().bytes, 3050u);
  EXPECT_EQ(told.sums("0x10").at_peak_bytes, 50u);
  EXPECT_EQ(told.sums("0x10").peak_live_bytes, 1050u);
  EXPECT_EQ(told.sums("0x20").at_peak_bytes, 3000u);
  EXPECT_EQ(told.sums("0x20").temporaries, 1u);
  EXPECT_EQ(told.sums("0x10").live, 1u);
  const std::string text = explain_text(explanation, 1, false);
  EXPECT_NE(text.find("0x20"), std::string::npos) << text;
  EXPECT_NE(text.find("1 more place;"), std::string::npos) << text;
}

TEST(Explanation, SaysInATitleWhoHoldsMostOfThePeak) {
  const auto title_of_one_place = [](std::uint64_t address) {
    Told told;
    told.make(address == 0 ? 0 : told.place(address), 100);
    for (const Plot& plot : explain_plots(told.explain())) {
      if (plot.id == "holders") return plot.title;
    }
    return std::string();
  };
  EXPECT_EQ(title_of_one_place(0x10), "0x10 holds 100% of the peak");
  EXPECT_EQ(title_of_one_place(0), "Calls without a recorded stack hold 100% of the peak");
}

TEST(Explanation, NamesSizesAtEvenDistances) {
  Told told;
  const std::uint32_t place = told.place(0x10);
  for (std::uint64_t bytes = 1; bytes <= 1 << 20; bytes *= 2) told.make(place, bytes);
  const std::vector<Plot> plots = explain_plots(told.explain());
  const auto sizes =
      std::find_if(plots.begin(), plots.end(), [](const Plot& plot) { return plot.id == "sizes"; });
  ASSERT_NE(sizes, plots.end());
  const std::vector<Tick> ticks = ticks_apart(sizes->x, 50);
  ASSERT_EQ(ticks.size(), 6u);
  for (std::size_t i = 1; i < ticks.size(); ++i) EXPECT_EQ(ticks[i].at - ticks[i - 1].at, 4);
}

TEST(Explanation, AddsUpOverARandomTrace) {
  trace::MadeTrace made;
  constexpr std::size_t kEvents = 30000;
  trace::add_random(*made.writer, trace::test_seed(), kEvents);
  made.writer->end("reason=exit\n");
  Told told;
  const Explanation& explanation = told.explain(made.bytes);
  std::uint64_t births = 0;
  std::uint64_t live = 0;
  std::uint64_t at_peak = 0;
  std::uint64_t lives = 0;
  for (const PlaceSums& place : explanation.sums()) {
    births += place.births;
    live += place.live;
    at_peak += place.at_peak_bytes;
    lives += std::accumulate(place.lives.begin(), place.lives.end(), std::uint64_t{0});
    EXPECT_EQ(place.births, place.deaths + place.live);
  }
  EXPECT_EQ(explanation.events(), kEvents);
  EXPECT_EQ(births, explanation.births());
  EXPECT_EQ(lives, births);
  EXPECT_EQ(live, explanation.history().live().objects);
  EXPECT_EQ(at_peak, explanation.peak().bytes);
  std::uint64_t passed = 0;
  for (const auto& [threads, sums] : explanation.passing()) passed += sums.objects;
  EXPECT_EQ(passed, births - live);
}

TEST(Explanation, KeepsTheHighestMomentsOfALongCourse) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 5000; ++i) {
    if (i == 3210) told.end(told.make(here, 1 << 20));
    told.make(here, 1);
    told.wait(1'000'000);
  }
  const std::vector<Moment> course = told.explain().course();
  EXPECT_LE(course.size(), 3 * 512 + 1u);
  EXPECT_GE(course.size(), 250u);
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < course.size(); ++i) {
    if (i > 0) {
      EXPECT_GE(course[i].time_ns, course[i - 1].time_ns);
    }
    most = std::max(most, course[i].bytes);
  }
  EXPECT_EQ(most, (1u << 20) + 3210);
}

/// What a line through the moments shows at a time.
double shown_at(const std::vector<Moment>& course, double at_ns) {
  for (std::size_t i = 1; i < course.size(); ++i) {
    const auto begin = static_cast<double>(course[i - 1].time_ns);
    const auto end = static_cast<double>(course[i].time_ns);
    if (at_ns < begin || at_ns >= end) continue;
    const auto from = static_cast<double>(course[i - 1].bytes);
    const auto to = static_cast<double>(course[i].bytes);
    return from + (to - from) * (at_ns - begin) / (end - begin);
  }
  return -1;
}

TEST(Explanation, LiveBytesStayWhatTheyAreFromCallToCall) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  Told told;
  const std::uint32_t here = told.place(0x10);
  const std::uint64_t kept = told.make(here, 1000);
  told.wait(2 * kSecond);
  told.end(kept);
  told.wait(2 * kSecond);
  told.end(told.make(here, 5000));  // for a moment
  told.wait(2 * kSecond);
  told.make(here, 300);
  const std::vector<Moment> course = told.explain().course();
  EXPECT_DOUBLE_EQ(shown_at(course, 1.9 * kSecond), 1000);
  EXPECT_DOUBLE_EQ(shown_at(course, 2.1 * kSecond), 0);
  EXPECT_DOUBLE_EQ(shown_at(course, 3.9 * kSecond), 0);
  EXPECT_DOUBLE_EQ(shown_at(course, 4.1 * kSecond), 0);
  EXPECT_DOUBLE_EQ(shown_at(course, 5.9 * kSecond), 0);
}

TEST(Explanation, CountsWhatWasResizedAndIsStillLive) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 3; ++i) told.resize(here, told.resize(here, told.make(here, 10), 20), 40);
  told.end(told.resize(here, told.make(here, 10), 20));
  const Explanation& explanation = told.explain();
  EXPECT_EQ(explanation.chains()[0], 0u);
  EXPECT_EQ(explanation.chains()[1], 1u);
  EXPECT_EQ(explanation.chains()[2], 3u);
}

TEST(Explanation, CountsReallocsAndWhoFreesWhoseObjects) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  told.end(told.resize(here, told.resize(here, told.make(here, 10), 20), 40));
  told.end(told.make(here, 8), 1);
  const Explanation& explanation = told.explain();
  EXPECT_EQ(explanation.chains()[2], 1u);
  EXPECT_EQ(explanation.passing().at({0, 1}).objects, 1u);
  EXPECT_EQ(told.sums("0x10").reallocs, 2u);
  EXPECT_EQ(told.sums("0x10").foreign_deaths, 1u);
}

TEST(LifeScale, HasEveryLifeInTheHalfDecadeThatEndsAboveIt) {
  EXPECT_EQ(LifeScale::bucket_of(0), 0u);
  for (std::uint64_t ns = 1000; ns < 1'000'000'000'000; ns = ns * 3 + 1) {
    const std::size_t bucket = LifeScale::bucket_of(ns);
    EXPECT_LE(static_cast<double>(ns) * 1e-9, LifeScale::upper_s(bucket) * 1.0001) << ns;
    EXPECT_GT(static_cast<double>(ns) * 1e-9, LifeScale::upper_s(bucket - 1) * 0.9999) << ns;
  }
}

TEST(LifeScale, TheLongestLivesHaveNoEnd) {
  LifeCounts lives{};
  lives[LifeScale::bucket_of(20'000'000'000'000)] = 10;
  EXPECT_EQ(typical_life(lives), "≥1000\u00A0s");
}

TEST(AddressMap, SharesAnObjectBetweenThePagesThatItLiesOn) {
  const TemporaryFolder folder("strata-test");
  const std::uint64_t pairs[] = {3 * 4096 - 1024, 2048, 4096, 64};
  std::ofstream(folder.file("map"), std::ios::binary)
      .write(reinterpret_cast<const char*>(pairs), sizeof pairs);
  const AddressMap map("system", folder.file("map"));
  ASSERT_EQ(map.pages().size(), 3u);
  EXPECT_EQ(map.pages()[0].number, 1u);
  EXPECT_DOUBLE_EQ(map.pages()[1].fullness, 0.25);
  EXPECT_DOUBLE_EQ(map.pages()[2].fullness, 0.25);
  EXPECT_EQ(map.bytes(), 2112u);
  EXPECT_EQ(map.pages_below(0.1), 1u);
}

TEST(AddressMap, HasEachPageOnceInTheirOrder) {
  const TemporaryFolder folder("strata-test");
  const std::uint64_t pairs[] = {3 * 4096, 64, 4096, 64, 3 * 4096 + 1024, 64, 4096 + 64, 64};
  std::ofstream(folder.file("map"), std::ios::binary)
      .write(reinterpret_cast<const char*>(pairs), sizeof pairs);
  const AddressMap map("system", folder.file("map"));
  ASSERT_EQ(map.pages().size(), 2u);
  EXPECT_EQ(map.pages()[0].number, 1u);
  EXPECT_EQ(map.pages()[1].number, 3u);
  EXPECT_THROW(AddressMap("system", folder.file("none")), std::runtime_error);
}

TEST(HeatMap, EscapesNamesAndLeavesOutFieldsOfNothing) {
  HeatMap map;
  map.columns = {"x", "y"};
  map.rows = {{"a<b", {{0, "none"}, {5, "five"}}}};
  const std::string svg = map.to_svg();
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  EXPECT_EQ(svg.find("<rect"), svg.rfind("<rect"));
}

TEST(HeatMap, ShadesByRowOrByAll) {
  HeatMap map;
  map.columns = {"x"};
  map.rows = {{"a", {{1, ""}}}, {"b", {{1000, ""}}}};
  const auto darkest = [&] {
    const std::string svg = map.to_svg();
    const std::string full = "fill-opacity=\"1.00\"";
    std::size_t count = 0;
    for (std::size_t at = 0; (at = svg.find(full, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(darkest(), 1u);
  map.is_by_row = true;
  EXPECT_EQ(darkest(), 2u);
}

TEST(LifeScale, HalfOfTheLivesAreNoLongerThanTheTypicalOne) {
  EXPECT_EQ(LifeScale::bucket_of(999), 0u);
  EXPECT_EQ(LifeScale::bucket_of(1000), 1u);
  LifeCounts lives{};
  lives[1] = lives[3] = 10;
  EXPECT_EQ(typical_life(lives), life_text(1));
  ++lives[3];
  EXPECT_EQ(typical_life(lives), life_text(3));
  lives[LifeScale::kNever] = 100;
  EXPECT_EQ(typical_life(lives), "never");
}

TEST(ExplainText, SaysWhatIsMissingAndWhatIsNotFreed) {
  trace::MadeTrace made;
  const std::uint32_t here = made.writer->add_stack({0, 0x11});
  const std::uint32_t there = made.writer->add_stack({0, 0x21});
  made.writer->add_text(trace::BlockKind::kProcess, "command=./app\n");
  made.writer->add_dropped(7);
  made.writer->add({.stack = here, .object = 0, .size_bytes = 100});
  made.writer->add({.stack = there, .object = 1, .size_bytes = 50});
  made.writer->add({.operation = Operation::kRealloc,
                    .stack = there,
                    .object = 2,
                    .ended = 1,
                    .size_bytes = 60});
  made.writer->add({.stack = here, .size_bytes = 1'000'000});  // refused
  made.writer->add({.operation = Operation::kFree, .ended = 2});
  made.writer->flush();
  Told told;
  const std::string text = explain_text(told.explain(made.bytes), 1, false);
  for (const char* sentence :
       {"./app\n", "Never freed: 100 B in 1 object\n", "Resized: 1 time\n",
        "Refused: 1 allocation\n", "The recorder dropped 7 calls: the numbers are too small\n",
        "The recording ends before the program did\n", "1 more place; --top 0 shows all\n"}) {
    EXPECT_NE(text.find(sentence), std::string::npos) << sentence << "is not in\n" << text;
  }
  EXPECT_EQ(told.sums("0x10").lives[LifeScale::kNever], 1u);
  EXPECT_EQ(explain_text(told.explain(made.bytes), 0, false).find("--top"), std::string::npos);
}

TEST(ExplainText, SaysNothingOfWhatDidNotHappen) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  told.end(told.make(here, 100));
  told.make(here, 100);
  const std::string text = explain_text(told.explain(), 0, false);
  for (const char* word : {"Resized", "Refused", "dropped", "ends before", "--top"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word << " is in\n" << text;
  }
  const std::size_t row = text.find("0x10");
  EXPECT_NE(text.find("100.0%", row), std::string::npos) << "temporary, of those freed:\n" << text;
}

TEST(ExplainText, OrdersPlacesByThePeakThenByWhatTheyAllocated) {
  Told told;
  const std::uint32_t small = told.place(0x10);
  const std::uint32_t large = told.place(0x20);
  const std::uint32_t peak = told.place(0x30);
  told.end(told.make(small, 10));
  told.end(told.make(large, 20));
  told.make(peak, 100);
  const Explanation& explanation = told.explain();
  std::string order;
  for (const std::size_t place : places_by_peak(explanation)) {
    order += explanation.places().names()[place].line.function + " ";
  }
  EXPECT_EQ(order, "0x30 0x20 0x10 ");
}

TEST(Pattern, SaysNothingOfFewObjectsOrOfAlignedOnesOrOfResizedOnes) {
  const auto remedies_of = [](int count, std::uint64_t alignment) {
    Told told;
    const std::uint32_t here = told.place(0x10);
    for (int i = 0; i < count; ++i) told.make(here, 40, 0, Operation::kNew, alignment);
    return told.remedies();
  };
  EXPECT_TRUE(remedies_of(99, 0).empty());
  EXPECT_FALSE(remedies_of(100, 0).empty());
  EXPECT_TRUE(remedies_of(100, 64).empty());
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 200; ++i) told.make(here, 40);
  told.resize(here, 0, 40);
  EXPECT_TRUE(told.remedies().empty());
}

TEST(Pattern, HasNoBlocksOfNothingAndNoArenaForAFew) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 200; ++i) told.make(here, 0);
  EXPECT_EQ(told.remedies(), std::vector{Remedy::kArena});
  Told few;
  const std::uint32_t there = few.place(0x10);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::uint64_t> objects;
    for (int i = 0; i < 50; ++i) objects.push_back(few.make(there, 40));
    for (const std::uint64_t object : objects) few.end(object);
  }
  EXPECT_EQ(few.remedies(), std::vector{Remedy::kBlocks});
}

TEST(Pattern, OfSeveralThreadsThatKeepTheirObjectsIsABitmapPools) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  std::vector<std::uint64_t> objects;
  for (std::uint32_t i = 0; i < 200; ++i) objects.push_back(told.make(here, 40, i % 2));
  for (std::uint32_t i = 0; i < 200; ++i) told.end(objects[i], i % 2);
  EXPECT_EQ(told.remedies(), std::vector{Remedy::kBitmap});
}

TEST(Pattern, LooksAtAsManyPlacesAsItIsAskedForAndAtNoneThatCostLittle) {
  Told told;
  const std::uint32_t often = told.place(0x10);
  const std::uint32_t seldom = told.place(0x20);
  const std::uint32_t aligned = told.place(0x30);
  const std::uint32_t large = told.place(0x40);
  for (int i = 0; i < 20'000; ++i) told.make(aligned, 64, 0, Operation::kNew, 64);
  for (int i = 0; i < 10'000; ++i) told.end(told.make(often, 32));
  for (int i = 0; i < 200; ++i) told.make(seldom, 8);
  for (int i = 0; i < 200; ++i) told.make(large, 10'000);
  const Explanation& explanation = told.explain();
  const auto places_of = [&](std::size_t most) {
    std::string names;
    for (const Candidate& candidate : find_candidates(explanation, most)) {
      const std::string& name = explanation.places().names()[candidate.place].line.function;
      if (!names.ends_with(name)) names += name;
    }
    return names;
  };
  EXPECT_EQ(places_of(10), "0x400x10");
  EXPECT_EQ(places_of(1), "0x40");
}

TEST(Pattern, SendsNodesThatDieTogetherToAnArena) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint64_t> nodes;
    for (int i = 0; i < 500; ++i) {
      nodes.push_back(told.make(here, 16u + 8u * static_cast<unsigned>(i % 5)));
    }
    for (const std::uint64_t node : nodes) told.end(node);
  }
  EXPECT_EQ(told.remedies(), std::vector{Remedy::kArena});
  EXPECT_NE(told.change().find("memory.reset();"), std::string::npos) << told.change();
}

/// Allocates objects of which at most `live` are live at once; frees the oldest first.
template <typename Bytes>
void replace(Told& told, std::size_t live, std::size_t count, Bytes bytes,
             std::uint32_t ending = 0) {
  const std::uint32_t here = told.place(0x10);
  std::deque<std::uint64_t> objects;
  for (std::size_t i = 0; i < count; ++i) {
    objects.push_back(told.make(here, bytes(i)));
    if (objects.size() < live) continue;
    told.end(objects.front(), ending);
    objects.pop_front();
  }
}

TEST(Pattern, SendsEqualNodesOfOneThreadToBlocks) {
  Told told;
  replace(told, 300, 2000, [](std::size_t) { return 40u; });
  EXPECT_EQ(told.remedies(), std::vector{Remedy::kBlocks});
}

TEST(Pattern, BlocksThatAreAdvisedAreNotSmallerThanBlocksCanBe) {
  Told told;
  replace(told, 300, 2000, [](std::size_t) { return 4u; });
  EXPECT_NE(told.change().find("BlockAllocator nodes(arena, 8, 375);  // no block is smaller"),
            std::string::npos)
      << told.change();
  Told other;
  replace(other, 300, 2000, [](std::size_t) { return 40u; });
  EXPECT_EQ(other.change().find("no block is smaller"), std::string::npos);
}

TEST(Pattern, AHeapThatIsAdvisedHasRoomForItsTags) {
  constexpr std::size_t kLive = 100'000;
  Told told;
  replace(told, kLive, 5 * kLive, [](std::size_t i) { return 1 + i % 2; });
  ASSERT_EQ(told.remedies(), std::vector{Remedy::kHeap});
  const std::string change = told.change();
  const std::string words = "strata::CoalescingHeap heap(";
  ASSERT_TRUE(change.starts_with(words)) << change;
  EXPECT_GE(std::stoull(change.substr(words.size())), 2 * kLive * 32) << "a block has 32 bytes";
}

TEST(Pattern, HeapsThatAreAdvisedHaveRoomForTheLargest) {
  Told told;
  replace(
      told, 120, 2000, [](std::size_t i) { return i % 2 == 0 ? 1000u : 100'000'000u; }, 1);
  ASSERT_EQ(told.remedies(), std::vector{Remedy::kHeaps});
  EXPECT_NE(told.change().find("options.arena_bytes = 200000000;"), std::string::npos)
      << told.change();
}

TEST(Pattern, MessagesOfManyThreadsHaveBlocksToSpareForEach) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 500; ++i) {
    told.end(told.make(here, 64, static_cast<std::uint32_t>(i) % 12), 0);
  }
  EXPECT_NE(told.change().find("BitmapPool<64, 769, 0, 12> messages"), std::string::npos)
      << told.change();
}

TEST(Pattern, SaysWhatMustBeZeroed) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 500; ++i) told.end(told.make(here, 100, 0, Operation::kCalloc));
  const Candidate candidate{0, Remedy::kReuse};
  EXPECT_NE(candidate.change(told.sums("0x10")).find("calloc"), std::string::npos);
}

TEST(Pattern, SendsMessagesBetweenThreadsToABitmapPool) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  for (int i = 0; i < 500; ++i) told.end(told.make(here, 64), 1);
  EXPECT_EQ(told.remedies(), std::vector{Remedy::kBitmap});
}

TEST(Pattern, SendsManySizesWhoseMemoryServesAgainToAHeapOfAsManyThreads) {
  const auto remedies = [](std::uint32_t ending_thread) {
    Told told;
    replace(
        told, 150, 2000, [](std::size_t i) { return 1000 + i % 7 * 100; }, ending_thread);
    return told.remedies();
  };
  EXPECT_EQ(remedies(0), std::vector{Remedy::kHeap});
  EXPECT_EQ(remedies(1), std::vector{Remedy::kHeaps});
}

TEST(Pattern, HasNoHeapForWhatIsAllocatedOnce) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  std::vector<std::uint64_t> buffers;
  for (unsigned i = 0; i < 500; ++i) buffers.push_back(told.make(here, 1000 + i % 7 * 100));
  for (const std::uint64_t buffer : buffers) told.end(buffer, 1);
  EXPECT_TRUE(told.remedies().empty());
}

TEST(Pattern, ReservesWhatGrowsAndReusesWhatIsWantedForAMoment) {
  Told told;
  const std::uint32_t vector = told.place(0x10);
  for (int round = 0; round < 40; ++round) {
    std::uint64_t before = told.make(vector, 16);
    for (std::uint64_t size = 32; size <= 4096; size *= 2) {
      const std::uint64_t next = told.make(vector, size);
      told.end(before);
      before = next;
    }
    told.end(before);
  }
  EXPECT_EQ(told.remedies().front(), Remedy::kReserve);

  Told other;
  const std::uint32_t buffer = other.place(0x10);
  for (int i = 0; i < 500; ++i) other.end(other.make(buffer, 100 + static_cast<unsigned>(i)));
  EXPECT_EQ(other.remedies().front(), Remedy::kReuse);
  EXPECT_EQ(other.change().find("resize"), std::string::npos) << "writes zeros";
}

TEST(Pattern, ReusesNothingOfWhichAThreadNeedsTwoAtOnce) {
  const auto has_reuse = [](std::uint32_t second_thread) {
    Told told;
    const std::uint32_t buffer = told.place(0x10);
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t first = told.make(buffer, 100);
      if (i % 32 == 0) told.end(told.make(buffer, 100, second_thread), second_thread);
      told.end(first);
    }
    const std::vector<Remedy> remedies = told.remedies();
    return std::find(remedies.begin(), remedies.end(), Remedy::kReuse) != remedies.end();
  };
  EXPECT_FALSE(has_reuse(0));
  EXPECT_TRUE(has_reuse(1)) << "each thread has a buffer of its own";
}

TEST(Pattern, TakesABufferResizedUpAndDownForNoGrowth) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  std::mt19937 random(trace::test_seed());
  std::uint64_t buffer = told.make(here, 100);
  for (int i = 0; i < 2000; ++i) buffer = told.resize(here, buffer, 16 + random() % 500);
  EXPECT_TRUE(told.remedies().empty());
  EXPECT_GT(told.sums("0x10").reallocs, 1900u);
}

TEST(Pattern, TakesSlotsWhoseContentsAreReplacedForNoGrowth) {
  Told told;
  const std::uint32_t here = told.place(0x10);
  std::mt19937 random(trace::test_seed());
  std::vector<std::uint64_t> slots;
  for (int i = 0; i < 50; ++i) slots.push_back(told.make(here, 16 + random() % 5000));
  for (int i = 0; i < 20000; ++i) {
    std::uint64_t& slot = slots[random() % slots.size()];
    const std::uint64_t next = told.make(here, 16 + random() % 5000);
    told.end(std::exchange(slot, next));
  }
  EXPECT_TRUE(told.remedies().empty());
  // In random numbers, 7 in 24 continue a rising run that becomes three long or longer.
  EXPECT_NEAR(static_cast<double>(told.sums("0x10").grown) / 20050, 7.0 / 24, 0.05);
}

TEST(Pattern, TakesWhatIsFreedBeforeASmallerOneForNoGrowth) {
  for (const std::uint32_t freeing_thread : {0u, 1u}) {
    Told told;
    const std::uint32_t here = told.place(0x10);
    for (int round = 0; round < 40; ++round) {
      const std::uint64_t first = told.make(here, 100);
      const std::uint64_t second = told.make(here, 200);
      told.end(first);
      told.end(told.make(here, 400), freeing_thread);
      told.end(second);
    }
    EXPECT_EQ(told.sums("0x10").grown, 0u);
  }
}

}  // namespace
}  // namespace strata::cli
