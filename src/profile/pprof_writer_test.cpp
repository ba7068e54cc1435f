#include "profile/pprof_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "os/clock.h"
#include "os/fake_page_source.h"
#include "os/file.h"
#include "profile/string_sink_test.h"

namespace strata {
namespace {

std::uint64_t take_number(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

/// The fields of a message by number: those that are numbers, and those that are bytes.
struct Message {
  explicit Message(std::string_view rest) {
    while (!rest.empty()) {
      const std::uint64_t tag = take_number(rest);
      const std::uint64_t value = take_number(rest);
      if ((tag & 7) == 0) {
        numbers[tag >> 3] = value;
      } else {
        texts[tag >> 3].emplace_back(rest.substr(0, value));
        rest.remove_prefix(value);
      }
    }
  }
  std::map<std::uint64_t, std::uint64_t> numbers;
  std::map<std::uint64_t, std::vector<std::string>> texts;
};

struct PprofWriterTest : ::testing::Test {
  void allocate(const std::vector<std::uintptr_t>& frames, std::size_t rate = 1) {
    table->site(table->intern(frames.data(), frames.size(), rate)).add(8, 8);
  }
  Message profile(std::uint64_t started_ns = 0) {
    StringSink sink;
    PprofWriter writer(sink, pages);
    EXPECT_TRUE(writer.write(*table, 1, started_ns));
    EXPECT_TRUE(writer.has_all_files());
    return Message(sink.content);
  }

  os::FakePageSource pages;
  MetadataArena metadata{pages};
  std::unique_ptr<SiteTable> table = std::make_unique<SiteTable>(metadata);
};

TEST_F(PprofWriterTest, SaysWhenItBeganHowLongItLastedAndWhatIsShownFirst) {
  const std::uint64_t now = os::wall_clock_ns();
  Message made = profile(now - 1'000'000);
  EXPECT_EQ(made.numbers[9], now - 1'000'000);
  EXPECT_GE(made.numbers[10], 1'000'000u);
  EXPECT_LT(made.numbers[10], os::wall_clock_ns());
  EXPECT_EQ(made.texts[6].at(made.numbers[14]), "inuse_space");
  EXPECT_EQ(profile(now + 3'600'000'000'000).numbers[10], 0u) << "the clock was put back";
}

TEST_F(PprofWriterTest, HasThePlacesOfTheRateThatIsAskedForAlone) {
  allocate({0x11, 0x21});
  allocate({0x21});
  allocate({0x31}, 2);
  Message made = profile();
  EXPECT_EQ(made.texts[2].size(), 2u);
  ASSERT_EQ(made.texts[4].size(), 2u);
  EXPECT_EQ(Message(made.texts[4][0]).numbers[3], 0x10u) << "in the call, not behind it";
  EXPECT_EQ(Message(made.texts[4][1]).numbers[3], 0x20u);
}

TEST_F(PprofWriterTest, TellsOfEachPlaceInWhichFileItLies) {
  // Addresses at the first and last byte of the first file, around it, and where no file is mapped.
  os::LineReader maps(os::path_of_maps());
  os::CodeMapping code{};
  for (std::string_view line; maps.next(line) && !os::parse_code_mapping(line, code);) {
  }
  for (const std::uint64_t call : {std::uint64_t{0x10}, code.start - 1, code.start, code.end - 1,
                                   code.end, std::uint64_t{1} << 63}) {
    allocate({static_cast<std::uintptr_t>(call + 1)});
  }
  Message made = profile();
  std::map<std::uint64_t, Message> files;
  for (const std::string& text : made.texts[3]) {
    Message file(text);
    files.emplace(file.numbers[1], file);
  }
  ASSERT_EQ(made.texts[4].size(), 6u);
  std::size_t in_first = 0;
  for (const std::string& text : made.texts[4]) {
    Message place(text);
    const std::uint64_t address = place.numbers[3];
    std::uint64_t expected = 0;
    for (auto& [id, file] : files) {
      if (address >= file.numbers[2] && address < file.numbers[3]) expected = id;
    }
    EXPECT_EQ(place.numbers[2], expected) << std::hex << address;
    in_first += place.numbers[2] == 1;
  }
  EXPECT_EQ(in_first, 2u);
}

TEST_F(PprofWriterTest, NamesThatAreNotUtf8AreMadeSo) {
  // The last name is cut in a character.
  for (const std::string& name :
       {std::string("caf\u00e9"), std::string("a\xff\xc3("), std::string(30, 'n') + "\u00e9"}) {
    const std::uintptr_t frame = 0x11;
    table->site(table->intern(&frame, 1, 1, table->label(name))).add(8, 8);
  }
  const std::vector<std::string> strings = profile().texts[6];
  for (const std::string& expected :
       {std::string("caf\u00e9"), std::string("a\ufffd\ufffd("), std::string(30, 'n') + "\ufffd"})
    EXPECT_THAT(strings, testing::Contains(expected));
}

TEST_F(PprofWriterTest, WithoutMemoryIsNoProfile) {
  allocate({0x11});
  pages.refuse_from_call(1);
  StringSink sink;
  EXPECT_FALSE(PprofWriter(sink, pages).write(*table, 1, 0));
}

}  // namespace
}  // namespace strata
