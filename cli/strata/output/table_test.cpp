#include "output/table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "output/text.h"
#include "output/units.h"

namespace strata::cli {
namespace {

TEST(Table, LinesNamesUpLeftAndNumbersRight) {
  Table table({{"name", false}, {"time"}});
  table.add_row({"a", "1.0 s"});
  table.add_row({"longer", "100.0 s"});
  EXPECT_EQ(table.to_text(false),
            "name       time\n"
            "a         1.0 s\n"
            "longer  100.0 s\n");
}

TEST(Table, RemarksStandBehindTheRowAndFailuresBesideTheName) {
  Table table({{"name", false}, {"time"}});
  table.add_row({"a", "1.0 s"}, Style::kPlain, "fastest");
  table.add_remark("b", "failed: exit status 3, which is long", Style::kBad);
  EXPECT_EQ(table.to_text(false),
            "name   time\n"
            "a     1.0 s  fastest\n"
            "b     failed: exit status 3, which is long\n");
}

TEST(Table, LeavesOutTheLastColumnsWhereThereIsNoRoomAndSaysSo) {
  Table table({{"name", false}, {"time"}, {"ratio"}, {"spread"}});
  table.add_row({"a", "1.0 s", "1.00", "2.0%"});
  table.add_remark("b", "failed", Style::kBad);
  EXPECT_EQ(table.to_text(false, 26), table.to_text(false));  // as wide as it is
  EXPECT_EQ(table.to_text(false, 25),
            "name   time  ratio\n"
            "a     1.0 s   1.00\n"
            "b     failed\n"
            "(1 more in a wider terminal)\n");
  EXPECT_EQ(table.to_text(false, 3),  // a name and a number there are always
            "name   time\n"
            "a     1.0 s\n"
            "b     failed\n"
            "(2 more in a wider terminal)\n");
}

TEST(Table, ALongNameLosesItsMiddleWhereThereIsNoRoom) {
  Table table({{"where the memory is", false}, {"bytes"}, {"share"}, {"calls"}});
  table.add_row({"a_function_with_a_name  file.cpp:80", "1.5 MiB", "75.0%", "12"});
  table.add_row({"main  file.cpp:7", "0.5 MiB", "25.0%", "2"});
  EXPECT_EQ(table.to_text(false, 58), table.to_text(false));  // as wide as it is
  EXPECT_EQ(table.to_text(false, 57),
            "where the memory is             bytes  share  calls\n"
            "a_function_…ame  file.cpp:80  1.5 MiB  75.0%     12\n"
            "main  file.cpp:7              0.5 MiB  25.0%      2\n");
  EXPECT_EQ(table.to_text(false, 30),
            "where …emory is    bytes\n"
            "a_func…e.cpp:80  1.5 MiB\n"
            "main  …le.cpp:7  0.5 MiB\n"
            "(2 more in a wider terminal)\n");
}

TEST(Table, WithoutAWidthALongNameMovesItsOwnRowOnly) {
  Table table({{"where", false}, {"time"}});
  const std::string longest(60, 'a');
  table.add_row({longest, "1.0 s"});
  table.add_row({longest + "b", "2.0 s"});
  table.add_row({"c", "3.0 s"});
  const auto blanks = [](std::size_t count) { return std::string(count, ' '); };
  EXPECT_EQ(table.to_text(false), "where" + blanks(58) + "time\n" + longest + "  1.0 s\n" +
                                      longest + "b  2.0 s\n" + "c" + blanks(61) + "3.0 s\n");
}

TEST(Table, ARemarkThatIsTooLongTakesSeveralLines) {
  Table table({{"name", false}, {"time"}});
  table.add_row({"a", "1.0 s"}, Style::kPlain, "what there is to say of it, with many words");
  EXPECT_EQ(table.to_text(false, 43),
            "name   time\n"
            "a     1.0 s  what there is to say of it,\n"
            "             with many words\n");
  EXPECT_EQ(table.to_text(false, 42),  // too narrow beside the row
            "name   time\n"
            "a     1.0 s\n"
            "    what there is to say of it, with many\n"
            "    words\n");
  Table failures({{"name", false}, {"time"}});
  failures.add_remark("b", "failed: a word-that-is-longer-than-the-line", Style::kBad);
  EXPECT_EQ(failures.to_text(false, 20),
            "name  time\n"
            "b\n"
            "    failed: a\n"
            "    word-that-is-longer-than-the-line\n");
}

TEST(Table, CountsCharactersNotBytes) {
  EXPECT_EQ(display_width("größe"), 5u);
  Table table({{"n", false}, {"x"}});
  table.add_row({"ä", "1"});
  table.add_row({"bb", "2"});
  EXPECT_EQ(table.to_text(false), "n   x\nä   1\nbb  2\n");
}

TEST(Table, ANameOfOthersStaysInItsField) {
  Table table({{"n", false}, {"x"}});
  table.add_row({"a\nb\033[1m", "1"});
  EXPECT_EQ(table.to_text(false), "n        x\na?b?[1m  1\n");
}

TEST(Table, CutsTextBetweenCharacters) {
  EXPECT_EQ(head_of("größe", 2), "gr");
  EXPECT_EQ(head_of("größe", 3), "gr");
  EXPECT_EQ(head_of("größe", 4), "grö");
  EXPECT_EQ(tail_of("größe", 2), "e");
  EXPECT_EQ(tail_of("größe", 3), "ße");
  EXPECT_EQ(fmt::format("{}{}", head_of("e", 9), tail_of("e", 9)), "ee");
}

TEST(Printable, HasNoControlCharacters) {
  EXPECT_EQ(printable("a\tb\033[1m\x7f"), "a b?[1m?");
  EXPECT_EQ(printable("\u0080\u009b1m\u009f"), "??1m?");
  EXPECT_EQ(printable("\u00a0\u00e9\u20ac"), "\u00a0\u00e9\u20ac");
  EXPECT_EQ(printable("cut \xc2"), "cut \xc2");
}

TEST(Text, ReachesTerminalsWithPlainSpaces) {
  EXPECT_EQ(with_plain_spaces("1.5\u00a0MiB in 3\u00a0ms"), "1.5 MiB in 3 ms");
  Table table({{"n", false}, {"x"}});
  table.add_row({"a", "1.5\u00a0MiB"});
  EXPECT_EQ(table.to_text(false), "n        x\na  1.5 MiB\n");
}

TEST(Text, CommandsAreQuotedAsTheShellWantsThem) {
  EXPECT_EQ(shell_quoted({"ls", "-l", "/tmp/a.b"}), "ls -l /tmp/a.b");
  EXPECT_EQ(shell_quoted({"sh", "-c", "echo 'x' $y", ""}), "sh -c 'echo '\\''x'\\'' $y' ''");
}

TEST(Table, ColoursAreAroundTheTextAndOnlyWhenAskedFor) {
  EXPECT_EQ(styled("x", Style::kGood, true), "\033[32mx\033[0m");
  EXPECT_EQ(styled("x", Style::kGood, false), "x");
  EXPECT_EQ(styled("", Style::kGood, true), "");
}

TEST(Units, ASingleRunHasNoSpread) {
  EXPECT_EQ(format_spread(0, 1), "");
  EXPECT_EQ(format_spread(0, 2), "0.0%");
  EXPECT_EQ(format_spread(0.215, 3), "21.5%");
}

TEST(Units, AColumnHasOneUnitWithAboutFourDigits) {
  EXPECT_EQ(Unit::of_column(Quantity::kSeconds, 123.4).format(123.4), "123.4 s");
  EXPECT_EQ(Unit::of_column(Quantity::kSeconds, 1.5).format(0.25), "0.250 s");
  EXPECT_EQ(Unit::of_column(Quantity::kSeconds, 0.0123).format(0.0123), "12.30 ms");
  EXPECT_EQ(Unit::of_column(Quantity::kSeconds, 1e-5).format(1e-5), "10.00 µs");
  EXPECT_EQ(Unit::of_column(Quantity::kBytes, 200.0 * 1024 * 1024).format(1024 * 1024), "1.0 MiB");
  EXPECT_EQ(Unit::of_column(Quantity::kBytes, 2.0 * 1024 * 1024).format(1024 * 1024), "1.00 MiB");
  EXPECT_EQ(Unit::of_column(Quantity::kBytes, 4096).format(4096), "4 KiB");
}

}  // namespace
}  // namespace strata::cli
