#include "shared/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "shared/log_buckets.h"

namespace strata::cell {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// The text that `tell` wrote.
std::string written(const std::function<void(FindingsWriter&)>& tell) {
  std::FILE* file = std::tmpfile();
  {
    FindingsWriter writer(::fileno(file));
    tell(writer);
  }
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

TEST(CellFindings, ComeBackAsTheyWereWritten) {
  const CellFindings findings = parse_findings(written([](FindingsWriter& writer) {
    writer.entered(1'234'567.123456789);  // two weeks after the machine was started
    writer.metric("ns_per_op", 12.5);
    writer.metric("ops", 1000);
    writer.served(1000, 2);
    writer.timer_cost(11.5);
    writer.latency("alloc", 3, 60'000, 25'000);
    writer.bucket(LogBuckets::index_of(20'000), 3);
    writer.latency("free", 1, 7000, 7000);
    writer.bucket(1000, 1);
    writer.end();
  }));
  EXPECT_TRUE(findings.is_whole);
  EXPECT_NEAR(findings.entered_s, 1'234'567.123456789, 1e-8);
  EXPECT_THAT(findings.metrics, ElementsAre(Pair("ns_per_op", 12.5), Pair("ops", 1000)));
  EXPECT_EQ(findings.allocations, 1000u);
  EXPECT_EQ(findings.failed_allocations, 2u);
  EXPECT_DOUBLE_EQ(findings.timer_cost_ns, 11.5);
  ASSERT_EQ(findings.latencies.size(), 2u);
  const CellFindings::Latency& alloc = findings.latencies[0];
  EXPECT_EQ(alloc.kind, "alloc");
  EXPECT_EQ(alloc.count, 3u);
  EXPECT_EQ(alloc.sum_ps, 60'000u);
  EXPECT_EQ(alloc.max_ps, 25'000u);
  EXPECT_THAT(alloc.buckets, ElementsAre(Pair(LogBuckets::index_of(20'000), 3u)));
  EXPECT_THAT(findings.latencies[1].buckets, ElementsAre(Pair(1000u, 1u)));
}

TEST(CellFindings, OfAnyLengthComeBackWhole) {
  constexpr std::size_t kBuckets = 2000;  // far beyond the writer's buffer
  const CellFindings findings = parse_findings(written([](FindingsWriter& writer) {
    writer.latency("alloc", kBuckets, 1, 1);
    for (std::size_t i = 0; i < kBuckets; ++i) writer.bucket(i, i + 1);
    writer.end();
  }));
  ASSERT_EQ(findings.latencies.at(0).buckets.size(), kBuckets);
  for (std::size_t i = 0; i < kBuckets; ++i) {
    ASSERT_EQ(findings.latencies[0].buckets[i], std::make_pair(i, std::uint64_t{i + 1}));
  }
  EXPECT_TRUE(findings.is_whole);
}

TEST(CellFindings, CarryTheSentenceOfAnEnd) {
  auto told = [](void (FindingsWriter::*verdict)(const char*) noexcept) {
    return parse_findings(
        written([&](FindingsWriter& writer) { (writer.*verdict)("a sentence of words"); }));
  };
  EXPECT_EQ(told(&FindingsWriter::broken).broken, "a sentence of words");
  EXPECT_EQ(told(&FindingsWriter::wrong).wrong, "a sentence of words");
  EXPECT_EQ(told(&FindingsWriter::unfit).unfit, "a sentence of words");
}

TEST(CellFindings, CutOffAnywhereAreNotWholeAndInventNothing) {
  const std::string text = "metric ns_per_op 12.5\nserved 10 2\nbroken a sentence of words\nend\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    CellFindings findings = parse_findings(text.substr(0, length));
    EXPECT_FALSE(findings.is_whole) << length;
    EXPECT_TRUE(findings.broken.empty() || findings.broken == "a sentence of words") << length;
    EXPECT_TRUE(findings.metrics.empty() || findings.metrics[0].second == 12.5) << length;
  }
  CellFindings whole = parse_findings(text);
  EXPECT_TRUE(whole.is_whole);
  EXPECT_EQ(whole.failed_allocations, 2u);
}

TEST(CellFindings, NonsenseIsPassedOver) {
  CellFindings findings = parse_findings(
      "bucket 1 1\nbucket\n\nlatency\nbucket 99999999999 1\nx y\n"
      "metric a nan\nmetric b -inf\nmetric c 1\n");
  EXPECT_THAT(findings.metrics, ElementsAre(Pair("c", 1)));
  EXPECT_FALSE(findings.is_whole);
  EXPECT_TRUE(findings.latencies.at(0).buckets.empty());
}

}  // namespace
}  // namespace strata::cell
