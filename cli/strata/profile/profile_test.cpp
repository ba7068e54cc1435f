#include "profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "input/usage_error.h"
#include "profile/leak_report.h"
#include "profile/sites.h"
#include "profile/symbols.h"
#include "report/flame_graph.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A protocol buffer message, written by hand.
class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    varint(field << 3);
    return varint(value);
  }
  Message& text(unsigned field, std::string_view value) {
    varint(field << 3 | 2).varint(value.size());
    bytes += value;
    return *this;
  }
  Message& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
    return *this;
  }
  std::string bytes;
};

Message kind(unsigned type, unsigned unit) { return Message().number(1, type).number(2, unit); }

struct Call {
  const char* function;
  std::uint64_t line;
};

/// A profile of four kinds. The functions have names; each stack is given innermost first, with its
/// live bytes as value. Each stack counts one object.
std::string profile_of(const std::vector<std::pair<std::vector<Call>, std::uint64_t>>& stacks,
                       const std::string& drop = {}) {
  std::vector<std::string> strings = {"",      "alloc_objects", "count",       "alloc_space",
                                      "bytes", "inuse_objects", "inuse_space", "/src/a.cpp"};
  Message profile;
  profile.text(1, kind(1, 2).bytes).text(1, kind(3, 4).bytes);
  profile.text(1, kind(5, 2).bytes).text(1, kind(6, 4).bytes);
  std::uint64_t id = 0;
  for (const auto& [stack, bytes] : stacks) {
    Message locations;
    for (const Call& call : stack) {
      ++id;
      locations.varint(id);
      strings.emplace_back(call.function);
      profile.text(5, Message().number(1, id).number(2, strings.size() - 1).number(4, 7).bytes);
      const Message line = Message().number(1, id).number(2, call.line);
      profile.text(4, Message().number(1, id).number(3, 0x1000 + id).text(4, line.bytes).bytes);
    }
    const Message values = Message().varint(1).varint(2 * bytes).varint(1).varint(bytes);
    profile.text(2, Message().text(1, locations.bytes).text(2, values.bytes).bytes);
  }
  profile.number(12, 1).number(14, 6);
  if (!drop.empty()) {
    strings.push_back(drop);
    profile.number(7, strings.size() - 1);
  }
  for (const std::string& text : strings) profile.text(6, text);  // after what refers to them
  return profile.bytes;
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string refusal_of(const std::string& bytes) {
  return refused_with<UsageError>([&] { parse_profile("heap.pb.gz", bytes); });
}

std::int64_t flat_of(const std::vector<SiteSums>& sites, const std::string& function) {
  for (const SiteSums& site : sites) {
    if (site.line.function == function) return site.flat;
  }
  return 0;
}

const std::vector<Call> kKeep = {{"keep", 10}, {"main", 20}};
const std::vector<Call> kGrow = {{"std::vector<int>::reserve", 5}, {"grow", 11}, {"main", 21}};

TEST(HeapProfile, IsReadPlainAndCompressed) {
  const std::string bytes = profile_of({{kKeep, 100}, {kGrow, 7}});
  for (const std::string& file : {bytes, gzipped(bytes)}) {
    Profile profile = parse_profile("heap.pb.gz", file);
    ASSERT_EQ(profile.kinds.size(), 4u);
    EXPECT_EQ(profile.kinds[profile.default_kind].type, "inuse_space");
    ASSERT_EQ(profile.samples.size(), 2u);
    EXPECT_EQ(profile.samples[0].values, (std::vector<std::int64_t>{1, 200, 1, 100}));
    const Line innermost = profile.locations[profile.samples[0].locations[0]].lines.at(0);
    EXPECT_EQ(innermost, (Line{"keep", "/src/a.cpp", 10}));
    EXPECT_EQ(innermost.place(true), "a.cpp:10");
  }
}

TEST(HeapProfile, TheHeapThatASampleIsFromIsItsOutermostCall) {
  std::string bytes = profile_of({{kKeep, 100}});  // which has ten texts and two places
  const Message values = Message().varint(1).varint(60).varint(1).varint(30);
  const Message label = Message().number(1, 10).number(2, 11);
  const Message sample =
      Message().text(1, Message().varint(1).bytes).text(2, values.bytes).text(3, label.bytes);
  bytes += Message().text(2, sample.bytes).text(2, sample.bytes).bytes;
  bytes += Message().text(6, "heap").text(6, "tenant 7").bytes;
  const Profile profile = parse_profile("heap.pb.gz", bytes);
  ASSERT_EQ(profile.samples.size(), 3u);
  EXPECT_EQ(profile.samples[0].locations.size(), 2u);
  EXPECT_EQ(profile.samples[1].locations, profile.samples[2].locations);
  const std::vector<SiteSums> sites =
      sum_sites(profile, profile.find_kind("inuse_space"), nullptr, 0);
  EXPECT_EQ(flat_of(sites, "keep"), 160);
  for (const SiteSums& site : sites) {
    if (site.line.function == "[the heap 'tenant 7']") {
      EXPECT_EQ(site.cumulative, 60);
      return;
    }
  }
  FAIL() << "the heap is not shown";
}

TEST(HeapProfile, BadFilesAreOneSentenceThatNamesThem) {
  const std::string good = profile_of({{kKeep, 100}});
  const std::string packed = gzipped(good);
  EXPECT_EQ(refusal_of(""), "'heap.pb.gz' is empty");
  EXPECT_EQ(refusal_of(packed.substr(0, packed.size() / 2)),
            "'heap.pb.gz' is not a heap profile: it is cut short");
  std::string damaged = packed;
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  EXPECT_THAT(refusal_of(damaged), StartsWith("'heap.pb.gz' is not a heap profile: "));
  for (const char* other : {"{\"rows\":[]}", "hello\n",
                            "\x7f"
                            "ELF\2\1\1"}) {
    EXPECT_EQ(refusal_of(other),
              "'heap.pb.gz' is not a heap profile, which strata run --profile writes");
  }
  EXPECT_EQ(refusal_of("{\"schema\": \"strata-results/1\"}"),
            "'heap.pb.gz' is not a heap profile: it looks like results, which strata report reads");
  EXPECT_THAT(refusal_of(gzipped("")), HasSubstr("does not say what it counts"));
  EXPECT_THAT(refusal_of(Message().text(1, "").text(2, Message().number(1, 5).bytes).bytes),
              HasSubstr("does not have"));
  EXPECT_THAT(refusal_of(Message().text(1, "").number(7, 99).bytes),
              HasSubstr("a text that it does not have"));
}

TEST(HeapProfile, WhatIsDamagedIsTold) {
  const std::string good = profile_of({{kKeep, 100}});
  const auto refusal = [&](const std::string& more) { return refusal_of(good + more); };
  const std::string line = Message().number(1, 99).bytes;  // of no function
  EXPECT_THAT(refusal(Message().text(4, Message().number(1, 9).text(4, line).bytes).bytes),
              HasSubstr("a place that it does not have"));
  EXPECT_THAT(refusal(Message().text(12, "1").bytes),
              HasSubstr("text stands where a number should"));
  EXPECT_THAT(refusal(Message().number(6, 1).bytes),
              HasSubstr("a number stands where text should"));
  EXPECT_THAT(refusal("\x60\xff"), HasSubstr("it ends in the middle of a number"));
  EXPECT_THAT(refusal("\x0b"), HasSubstr("a field has an unknown type"));
  EXPECT_THAT(refusal_of("\x1f\x8b that is no gzip"), HasSubstr("its gzip data are damaged"));
}

TEST(HeapProfile, FieldsOfLaterVersionsArePassedOver) {
  const std::string later =
      "\xa1\x01"
      "12345678"
      "\xa5\x01"
      "1234";
  const Profile profile = parse_profile("p", later + profile_of({{kKeep, 100}}));
  EXPECT_EQ(profile.samples.size(), 1u);
}

TEST(HeapProfile, ShowsTheLastKindFirstWhereTheFileSaysNone) {
  const std::string bytes = profile_of({{kKeep, 100}});
  EXPECT_EQ(parse_profile("p", bytes + Message().number(14, 1).bytes).default_kind, 0u);
  EXPECT_EQ(parse_profile("p", bytes + Message().number(14, 0).bytes).default_kind, 3u);
}

TEST(HeapProfile, LabelsThatAreNoHeapsAreNoCalls) {
  const Message values = Message().varint(1).varint(60).varint(1).varint(30);
  const Message sample = Message()
                             .text(1, Message().varint(1).bytes)
                             .text(2, values.bytes)
                             .text(3, Message().number(1, 10).number(2, 11).bytes);
  const Profile profile =
      parse_profile("p", profile_of({{kKeep, 100}}) + Message().text(2, sample.bytes).bytes +
                             Message().text(6, "thread").text(6, "worker").bytes);
  EXPECT_EQ(profile.samples.at(1).locations.size(), 1u);
}

TEST(HeapProfile, ALineWithoutANumberIsItsFile) {
  EXPECT_EQ((Line{"keep", "/src/a.cpp", 0}.place(true)), "a.cpp");
  EXPECT_EQ((Line{"keep", "", 7}.place(true)), "");
}

TEST(HeapProfile, NoPrefixOfAFileIsReadBeyondItsEnd) {
  const std::string good = profile_of({{kKeep, 100}, {kGrow, 300}});
  std::size_t refused = 0;
  for (std::size_t size = 0; size < good.size(); ++size) {
    refused += refusal_of(good.substr(0, size)) != "accepted";
  }
  EXPECT_GT(refused, good.size() / 2);
}

TEST(HeapProfile, OwnFramesOfTheAllocatorAreDropped) {
  Profile profile = parse_profile(
      "p", profile_of({{{{"strata::take", 1}, {"malloc", 2}, {"keep", 10}, {"main", 20}}, 9}},
                      "strata::.*|malloc"));
  symbolise(profile);
  const std::vector<StackSums> stacks = live_stacks(profile);
  ASSERT_EQ(stacks.size(), 1u);
  ASSERT_EQ(stacks[0].lines.size(), 2u);
  EXPECT_EQ(stacks[0].lines[0].function, "keep");
}

TEST(HeapProfile, WhatATemplateOfTheAllocatorsCallsBackStays) {
  Profile profile = parse_profile(
      "p", profile_of({{{{"malloc", 1}, {"keep", 10}, {"strata::visit", 2}, {"main", 20}}, 9},
                       {{{"strata::take", 1}, {"strata::visit", 2}, {"main", 20}}, 9}},
                      "strata::.*|malloc"));
  symbolise(profile);
  const std::vector<StackSums> stacks = live_stacks(profile);
  ASSERT_EQ(stacks.size(), 2u);
  ASSERT_EQ(stacks[0].lines.size(), 3u);
  EXPECT_EQ(stacks[0].lines[0].function, "keep");
  EXPECT_EQ(stacks[0].lines[1].function, "strata::visit");
  ASSERT_EQ(stacks[1].lines.size(), 1u);
  EXPECT_EQ(stacks[1].lines[0].function, "main");
}

TEST(HeapProfile, OfAStackOfOwnFramesTheOutermostStays) {
  Profile profile = parse_profile(
      "p", profile_of({{{{"strata::take", 1}, {"malloc", 2}}, 9}}, "strata::.*|malloc"));
  symbolise(profile);
  ASSERT_EQ(profile.samples.at(0).locations.size(), 1u);
  EXPECT_EQ(live_stacks(profile).at(0).lines.at(0).function, "malloc");
}

TEST(HeapProfile, OwnFramesThatAreInlinedAreDroppedWhereTheyAreTheInnermost) {
  Profile profile = parse_profile(
      "p", profile_of({{{{"keep", 1}, {"main", 2}}, 9}, {{{"other", 3}, {"main", 2}}, 5}},
                      "strata::.*"));
  for (std::size_t place : {profile.samples[0].locations[0], profile.samples[1].locations[1]}) {
    std::vector<Line>& lines = profile.locations[place].lines;
    lines.insert(lines.begin(), Line{"strata::visit", "", 0});
  }
  symbolise(profile);
  const std::vector<StackSums> stacks = live_stacks(profile);
  EXPECT_EQ(stacks.at(0).lines.at(0).function, "keep");
  EXPECT_EQ(stacks.at(1).lines.at(1).function, "strata::visit");
}

TEST(HeapProfile, APatternIsThatOfAWholeName) {
  Profile profile = parse_profile(
      "p",
      profile_of({{{{"keeper", 1}, {"main", 2}}, 9}, {{{"bookkeep", 3}, {"main", 2}}, 5}}, "keep"));
  symbolise(profile);
  EXPECT_EQ(live_stacks(profile).at(0).lines.at(0).function, "keeper");
  EXPECT_EQ(live_stacks(profile).at(1).lines.at(0).function, "bookkeep");
}

TEST(HeapProfile, APatternTooLongToCompileDropsNothing) {
  const std::string nested = std::string(200'000, '(') + "keep" + std::string(200'000, ')');
  Profile profile = parse_profile("p", profile_of({{kKeep, 100}}, nested));
  symbolise(profile);
  EXPECT_EQ(live_stacks(profile).at(0).lines.at(0).function, "keep");
}

TEST(Sites, LibraryCodeCountsForTheLineThatCalledIt) {
  const Profile profile = parse_profile("p", profile_of({{kKeep, 100}, {kGrow, 300}}));
  const std::vector<SiteSums> sites = sum_sites(profile, profile.default_kind, nullptr, 0);
  EXPECT_EQ(sites.at(0).line.function, "grow");
  EXPECT_EQ(flat_of(sites, "grow"), 300);
  EXPECT_EQ(flat_of(sites, "keep"), 100);
  EXPECT_EQ(flat_of(sites, "std::vector<int>::reserve"), 0);
}

TEST(Sites, ARecursiveFunctionCountsOnce) {
  const Profile profile =
      parse_profile("p", profile_of({{{{"f", 1}, {"f", 1}, {"f", 1}, {"main", 2}}, 50}}));
  const std::vector<SiteSums> sites = sum_sites(profile, profile.default_kind, nullptr, 0);
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].cumulative, 50);
  EXPECT_EQ(sites[1].cumulative, 50);
}

TEST(Sites, TheDifferenceIsWhatHasGrownOrShrunk) {
  const Profile older = parse_profile("a", profile_of({{kKeep, 100}, {kGrow, 300}}));
  const Profile newer = parse_profile("b", profile_of({{kGrow, 250}, {kKeep, 1100}}));
  const std::vector<SiteSums> sites =
      sum_sites(newer, newer.default_kind, &older, older.default_kind);
  EXPECT_EQ(flat_of(sites, "keep"), 1000);
  EXPECT_EQ(flat_of(sites, "grow"), -50);
  const std::vector<SiteSums> none = sum_sites(newer, newer.default_kind, &newer, 3);
  EXPECT_TRUE(none.empty());
}

TEST(Sites, WhatTheLibraryAllocatesForItselfIsItsInnermostFunctions) {
  const Profile profile =
      parse_profile("p", profile_of({{{{"malloc", 1}, {"std::terminate", 2}}, 50}, {{}, 7}}));
  const std::vector<SiteSums> sites = sum_sites(profile, profile.default_kind, nullptr, 0);
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].line.function, "malloc");
  EXPECT_EQ(sites[0].cumulative, 50);
  EXPECT_EQ(sites[1].line.function, "unknown caller");
}

TEST(Sites, WhatHasGrownComesFirstThenWhatIsCalledByMore) {
  const Profile older = parse_profile("a", profile_of({{kGrow, 50}, {{{"f", 1}, {"main", 2}}, 9}}));
  const Profile newer = parse_profile("b", profile_of({{kKeep, 50}, {{{"g", 1}, {"zoo", 2}}, 60}}));
  const std::vector<SiteSums> sites =
      sum_sites(newer, newer.default_kind, &older, older.default_kind);
  std::string names;
  for (const SiteSums& site : sites) names += site.line.function + " ";
  EXPECT_EQ(names, "g keep grow f zoo main main main ");
}

TEST(Sites, AmountsAreShortAndSigned) {
  EXPECT_EQ(amount(0, "bytes", true), "0\u00a0B");
  EXPECT_EQ(amount((1 << 20) - 1, "bytes"), "1\u00a0MiB");
  EXPECT_EQ(amount(std::int64_t{2048} << 40, "bytes"), "2048\u00a0TiB");
  EXPECT_EQ(amount(0, "bytes"), "0\u00a0B");
  EXPECT_EQ(amount(1000, "bytes"), "1000\u00a0B");
  EXPECT_EQ(amount(1536, "bytes", true), "+1.5\u00a0KiB");
  EXPECT_EQ(amount(-(std::int64_t{3} << 30), "bytes"), "-3\u00a0GiB");
  EXPECT_EQ(amount(12, "count"), "12");
}

TEST(LeakReport, TellsTotalsAndEachStack) {
  const Profile profile = parse_profile("p", profile_of({{kKeep, 1}, {kGrow, 300}, {kKeep, 2}}));
  const std::string text = leak_report(profile, "app (process 7)", 1);
  EXPECT_EQ(text,
            "strata: 303 bytes in 3 allocations are live at exit of app (process 7), from 2 "
            "places\n"
            "strata: 300 bytes in 1 allocation by\n"
            "    #0  std::vector<int>::reserve  /src/a.cpp:5\n"
            "    #1  grow  /src/a.cpp:11\n"
            "    #2  main  /src/a.cpp:21\n"
            "strata: 3 bytes in 2 allocations from 1 other place\n");
  EXPECT_EQ(leak_report(profile, "app", 2).find("other place"), std::string::npos);
}

TEST(LeakReport, LeavesOutWhatIsFreed) {
  Profile profile = parse_profile("p", profile_of({{kKeep, 8}, {kGrow, 16}}));
  profile.samples[1].values = {1, 16, 0, 0};
  EXPECT_THAT(leak_report(profile, "app", 2), HasSubstr("from 1 place\n"));
}

TEST(LeakReport, SaysThatACallerIsUnknown) {
  const Profile profile = parse_profile("p", profile_of({{{}, 8}}));
  EXPECT_EQ(leak_report(profile, "app", 1),
            "strata: 8 bytes in 1 allocation is live at exit of app, from 1 place\n"
            "strata: 8 bytes in 1 allocation by\n"
            "    an unknown caller\n");
}

TEST(LeakReport, ANameTakesNoLineOfItsOwn) {
  Profile profile = parse_profile("p", profile_of({{kKeep, 1}}));
  for (Profile::Location& location : profile.locations) {
    for (Line& line : location.lines) line.function += "\n    #9  forged\033[2J";
  }
  const std::string text = leak_report(profile, "a\npp", 1);
  EXPECT_NE(text.find("live at exit of a?pp"), std::string::npos) << text;
  EXPECT_NE(text.find("keep?    #9  forged?[2J"), std::string::npos) << text;
}

TEST(Symbols, NamesLoseTheirParameters) {
  EXPECT_EQ(readable_name("_ZN3app4keepEi"), "app::keep");
  EXPECT_EQ(readable_name("main"), "main");
  EXPECT_EQ(readable_name("_Znwm"), "operator new");
}

TEST(Symbols, AFileThatIsMissingOrOfAnotherBuildHasNone) {
  SymbolFiles files("made");
  EXPECT_EQ(files.lines_at("/no/such/file", "", 0x1000).at(0).function, "file+0x1000");
  EXPECT_TRUE(files.notes().empty());
  EXPECT_EQ(files.lines_at("/proc/self/exe", "00", 0x1000).at(0).function, "exe+0x1000");
  EXPECT_EQ(files.notes().size(), 1u);
}

TEST(FlameGraph, LaysStacksUponEachOther) {
  const Profile profile =
      parse_profile("p", profile_of({{kKeep, 100}, {kGrow, 300}, {{{"</script>", 1}}, 5}}));
  const FlameGraph graph(profile);
  EXPECT_EQ(graph.nodes().front().values[graph.first_kind()], 405);
  EXPECT_EQ(graph.nodes().front().children.size(), 2u);  // main, </script>
  EXPECT_THAT(graph.to_html(), HasSubstr(">grow</div>"));
  EXPECT_THAT(graph.to_html(), HasSubstr("&lt;/script&gt;"));
  EXPECT_EQ(graph.to_json().find('<'), std::string::npos);
}

TEST(FlameGraph, LeavesOutWhatIsTooThinAndWhatShrank) {
  Profile profile = parse_profile(
      "p", profile_of({{kKeep, 1'000'000}, {{{"thin", 1}}, 1}, {{{"shrank", 1}}, 500'000}}));
  profile.samples[2].values = {1, 1, -1, -500'000};
  const FlameGraph graph(profile);
  EXPECT_EQ(graph.nodes().front().values[graph.first_kind()], 1'000'001);
  for (const std::string& drawn : {graph.to_html(), graph.to_json()}) {
    EXPECT_THAT(drawn, HasSubstr("keep"));
  }
  EXPECT_EQ(graph.to_html().find(">thin<"), std::string::npos);
  EXPECT_EQ(graph.to_html().find(">shrank<"), std::string::npos);
}

TEST(FlameGraph, ShowsWhatWasAllocatedWhereNothingIsLive) {
  Profile profile = parse_profile("p", profile_of({{kKeep, 100}}));
  profile.samples[0].values = {1, 200, 0, 0};
  EXPECT_EQ(FlameGraph(profile).first_kind(), profile.find_kind("alloc_space"));
}

TEST(FlameGraph, OfAnEndlessRecursionEndsAtAThousandFrames) {
  const std::vector<Call> recursion(60'000, Call{"descend", 3});
  const Profile profile = parse_profile("p", profile_of({{recursion, 100}, {kKeep, 1}}));
  const FlameGraph graph(profile);
  EXPECT_EQ(graph.nodes().size(), 1 + 1000u + 2);
  EXPECT_EQ(graph.nodes()[1000].values[graph.first_kind()], 100);
  EXPECT_THAT(graph.to_html(), HasSubstr(">descend</div>"));
  EXPECT_THAT(graph.to_json(), HasSubstr("descend"));
}

}  // namespace
}  // namespace strata::cli
