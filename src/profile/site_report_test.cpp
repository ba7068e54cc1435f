#include "profile/site_report.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "os/fake_page_source.h"
#include "profile/string_sink_test.h"

// As long as the linker's names of some C++ templates.
#define STRATA_TEST_64 "0123456789012345678901234567890123456789012345678901234567890123"
#define STRATA_TEST_512                                                                     \
  STRATA_TEST_64 STRATA_TEST_64 STRATA_TEST_64 STRATA_TEST_64 STRATA_TEST_64 STRATA_TEST_64 \
      STRATA_TEST_64 STRATA_TEST_64
[[gnu::visibility("default"), gnu::used, gnu::noinline]] void function_with_a_long_name() asm(
    "f_" STRATA_TEST_512 STRATA_TEST_512 STRATA_TEST_512);
void function_with_a_long_name() { asm volatile("" ::: "memory"); }

namespace strata {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct SiteReport : ::testing::Test {
  void allocate(const std::vector<std::uintptr_t>& frames, std::size_t bytes,
                std::size_t objects = 1, const char* heap = nullptr, std::size_t rate = 1) {
    const HeapLabel* const label = heap == nullptr ? nullptr : table->label(heap);
    const std::uint32_t id = table->intern(frames.data(), frames.size(), rate, label);
    for (std::size_t i = 0; i < objects; ++i) table->site(id).add(bytes, bytes);
  }
  std::string report(std::size_t most = 10) {
    StringSink sink;
    write_live_sites(*table, 1, most, sink, pages);
    return sink.content;
  }
  static std::string head(const std::string& sums, const std::string& places) {
    return "strata: " + sums.substr(0, sums.rfind(' ')) + " of process " +
           std::to_string(getpid()) + sums.substr(sums.rfind(' ')) + " live at exit, from " +
           places + "\n";
  }

  os::FakePageSource pages;
  MetadataArena metadata{pages};
  std::unique_ptr<SiteTable> table = std::make_unique<SiteTable>(metadata);
};

TEST_F(SiteReport, OfNothingIsOneLine) {
  EXPECT_EQ(report(), head("0 bytes in 0 allocations are", "0 places"));
}

TEST_F(SiteReport, OfOneOfEachHasNoPlurals) {
  allocate({0x11}, 1);
  EXPECT_EQ(report(), head("1 byte in 1 allocation is", "1 place") +
                          "strata: 1 byte in 1 allocation by\n"
                          "    #0  0x10\n");
}

TEST_F(SiteReport, HasTheLargestFirstThenTheFirstAndSumsUpTheRest) {
  allocate({0x11}, 10, 5);
  allocate({0x21}, 100);
  allocate({0x31}, 25, 2);
  allocate({0x41}, 7);
  allocate({0x51}, 1000, 1, nullptr, 2);  // at another rate
  allocate({0x61}, 5000);
  table->site(6).remove(5000, 5000);
  const std::string sums = head("207 bytes in 9 allocations are", "4 places");
  const std::string first = sums +
                            "strata: 100 bytes in 1 allocation by\n    #0  0x20\n"
                            "strata: 50 bytes in 5 allocations by\n    #0  0x10\n";
  EXPECT_EQ(report(2), first +
                           "strata: 57 bytes in 3 allocations from 2 other places; "
                           "the profile has them all\n");
  EXPECT_THAT(report(3), HasSubstr("strata: 7 bytes in 1 allocation from 1 other place; "));
  EXPECT_EQ(report(4), first +
                           "strata: 50 bytes in 2 allocations by\n    #0  0x30\n"
                           "strata: 7 bytes in 1 allocation by\n    #0  0x40\n");
}

TEST_F(SiteReport, HasTheSumsOfHeapsWhereThereAreAny) {
  allocate({0x11}, 10, 1, "small");
  EXPECT_THAT(report(), HasSubstr("strata: of these 10 bytes in 1 allocation in the heap 'small'\n"
                                  "strata: 10 bytes in 1 allocation in the heap 'small' by\n"));
  allocate({0x11}, 200, 1, "large");
  allocate({0x21}, 100, 1, "large");
  allocate({0x11}, 50);
  const std::string two =
      "strata: of these 300 bytes in 2 allocations in the heap 'large'\n"
      "strata: of these 50 bytes in 1 allocation in the malloc\n";
  EXPECT_THAT(report(2), HasSubstr(two + "strata: and the rest in 1 other heap\n"));
  EXPECT_THAT(report(3),
              HasSubstr(two + "strata: of these 10 bytes in 1 allocation in the heap 'small'\n"
                              "strata: 200 bytes"));
}

TEST_F(SiteReport, NamesTheCallAndNotWhatFollowsIt) {
  const auto function = reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "getpid"));
  allocate({function + 1, 0x11}, 1);
  EXPECT_THAT(report(), ContainsRegex("    #0  _*getpid\\+0x0  [^ ]+\\+0x[0-9a-f]+\n"
                                      "    #1  0x10\n"));
}

TEST_F(SiteReport, ALongNameLeavesTheFileAndTheLineTheirPlaces) {
  const auto function = reinterpret_cast<std::uintptr_t>(&function_with_a_long_name);
  allocate({function + 1, 0x11}, 1);
  EXPECT_THAT(report(), ContainsRegex("    #0  f_01234567[^ ]*\\+0x0  [^ ]+\\+0x[0-9a-f]+\n"
                                      "    #1  0x10\n"));
}

TEST_F(SiteReport, NumbersOfFramesAreInOneColumn) {
  allocate(std::vector<std::uintptr_t>(11, 0x11), 1);
  EXPECT_THAT(report(), HasSubstr("    #9  0x10\n    #10 0x10\n"));
}

TEST_F(SiteReport, SaysWhyACallerIsUnknown) {
  allocate({}, 1);
  EXPECT_THAT(report(), HasSubstr("allocation by\n    an unknown caller\n"));
  pages.limit_mapped_bytes(pages.mapped_bytes());
  for (std::uintptr_t frame = 0x11; table->tells_all_apart(); ++frame) allocate({frame}, 1);
  pages.limit_mapped_bytes(SIZE_MAX);
  EXPECT_THAT(report(),
              HasSubstr("by\n    unknown callers: there were too many to tell them apart, "
                        "or no memory was left\n"));
}

TEST_F(SiteReport, WithoutMemorySaysSo) {
  allocate({0x11}, 1);
  pages.refuse_from_call(1);
  EXPECT_EQ(report(), "strata: no memory is left to report what is live\n");
}

}  // namespace
}  // namespace strata
