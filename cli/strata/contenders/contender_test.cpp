#include "contenders/contender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "contenders/library_search.h"
#include "input/usage_error.h"
#include "process/temporary_folder.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& list) {
  return refused_with<UsageError>([&] { parse_contenders(list); });
}

TEST(Contenders, SystemHasNoLibrary) {
  Contender contender = parse_contender("system");
  EXPECT_EQ(contender.name, "system");
  EXPECT_EQ(contender.library, "");
}

TEST(Contenders, AnyNameMayComeWithAPathWhichIsMadeAbsolute) {
  Contender contender = parse_contender("mine=./lib/../x.so");
  EXPECT_EQ(contender.name, "mine");
  EXPECT_EQ(contender.library, (std::filesystem::current_path() / "x.so").string());
  EXPECT_EQ(parse_contender("system=/x.so").library, "/x.so");
}

TEST(Contenders, StrataIsReplacedByAGivenLibrary) {
  EXPECT_EQ(parse_contender("strata", "/elsewhere/libstrata.so").library,
            "/elsewhere/libstrata.so");
}

TEST(Contenders, KeepTheOrderInWhichTheyAreGiven) {
  std::vector<Contender> contenders = parse_contenders("b=/b.so,system,a=/a.so");
  ASSERT_EQ(contenders.size(), 3u);
  EXPECT_EQ(contenders[0].name, "b");
  EXPECT_EQ(contenders[1].name, "system");
  EXPECT_EQ(contenders[2].name, "a");
}

TEST(Contenders, AGroupLeavesOutWhatIsThereAlready) {
  std::vector<Contender> contenders = {{"b", "/b.so", {}}};
  add_group(contenders, {{"a", "/a.so", {}}, {"b", "/other.so", {}}});
  ASSERT_EQ(contenders.size(), 2u);
  EXPECT_EQ(contenders[0].library, "/b.so");
  EXPECT_EQ(contenders[1].name, "a");
  EXPECT_THROW(add_named(contenders, {"a", "/other.so", {}}), UsageError);
}

TEST(Contenders, WhatIsNotUnderstoodIsNamed) {
  EXPECT_THAT(refusal("system,hoard"), HasSubstr("unknown allocator 'hoard'"));
  EXPECT_THAT(refusal("bitmap-pool"), HasSubstr("pools and heaps take part in strata bench alone"));
  EXPECT_THAT(refusal("a=/a.so,a=/b.so"), HasSubstr("'a' is given twice"));
  EXPECT_THAT(refusal("=/a.so"), HasSubstr("'=/a.so'"));
  EXPECT_THAT(refusal("a="), HasSubstr("'a='"));
  EXPECT_THAT(refusal("a b=/a.so"), HasSubstr("'a b=/a.so'"));
}

TEST(LibrarySearch, TakesTheNewestVersionOfTheFirstFolderThatHasOne) {
  const TemporaryFolder temporary("test");
  const std::filesystem::path folder(temporary.path());
  std::filesystem::create_directories(folder / "second");
  for (const char* file : {"libx.so.9", "libx.so.10", "libx.so.2-gdb.py", "libxy.so.99"}) {
    std::ofstream(folder / file) << "";
  }
  std::ofstream(folder / "second" / "libx.so.11") << "";
  std::vector<std::string> folders = {"/no/such/folder", folder.string(),
                                      (folder / "second").string()};
  EXPECT_EQ(find_library("libx.so", folders), (folder / "libx.so.10").string());
  EXPECT_EQ(find_library("libxy.so", folders), (folder / "libxy.so.99").string());
  EXPECT_EQ(find_library("libz.so", folders), "");
}

}  // namespace
}  // namespace strata::cli
