#include "base/text_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace strata {
namespace {

TEST(TextWriter, StartsEmpty) { EXPECT_EQ(TextWriter().view(), ""); }

TEST(TextWriter, WritesTextAndNumbersInOrder) {
  TextWriter line;
  line.text("live ").decimal(0).text(" of ").decimal(18446744073709551615u);
  EXPECT_EQ(line.view(), "live 0 of 18446744073709551615");
}

TEST(TextWriter, ANameReachesATerminalWithoutControlCharacters) {
  TextWriter line;
  line.name("caf\u00e9\n\t\033[2J\x7f\u009b1m");
  EXPECT_EQ(line.view(), "caf\u00e9???[2J??1m");
}

TEST(TextWriter, TwoCutNamesLeaveRoomForNumbersInALine) {
  TextWriter line;
  const std::string name(TextWriter::kCapacity, 'n');
  line.cut_name(name).hex(~0ull).cut_name("short\n").hex(~0ull).cut_name(name).hex(~0ull);
  EXPECT_LE(line.view().size(), TextWriter::kCapacity - 50);
  EXPECT_NE(line.view().find("fshort?0x"), std::string_view::npos);
}

TEST(TextWriter, AlignsNumbersToTheRight) {
  TextWriter line;
  line.decimal(7, 4).text("|").decimal(12345, 4).text("|").decimal(0, 2);
  EXPECT_EQ(line.view(), "   7|12345| 0");
}

TEST(TextWriter, WritesHexWithoutLeadingZeros) {
  TextWriter line;
  line.hex(0).text(" ").hex(0x10).text(" ").hex(0xfedcba9876543210u).text(" ").hex(~0ull);
  EXPECT_EQ(line.view(), "0x0 0x10 0xfedcba9876543210 0xffffffffffffffff");
}

TEST(TextWriter, WritesPointersAsHex) {
  TextWriter line;
  line.pointer(reinterpret_cast<const void*>(0x7f00dead0010)).text(" ").pointer(nullptr);
  EXPECT_EQ(line.view(), "0x7f00dead0010 0x0");
}

TEST(TextWriter, KeepsExactlyItsCapacityAndCutsTheRest) {
  TextWriter line;
  line.text(std::string(TextWriter::kCapacity - 2, 'x')).decimal(12345).text("lost");
  ASSERT_EQ(line.view().size(), TextWriter::kCapacity);
  EXPECT_EQ(line.view().substr(TextWriter::kCapacity - 3), "x12");
  line.hex(1).text("more");
  EXPECT_EQ(line.view().size(), TextWriter::kCapacity);
}

TEST(TextWriter, ClearsToBeUsedAgain) {
  TextWriter line;
  line.text(std::string(2 * TextWriter::kCapacity, 'x'));
  line.clear();
  EXPECT_EQ(line.text("new").view(), "new");
}

}  // namespace
}  // namespace strata
