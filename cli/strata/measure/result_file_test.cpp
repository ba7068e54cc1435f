#include "measure/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "input/usage_error.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

class ResultFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/strata-result-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "results.json").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string contents() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ResultFileTest, ReplacesWhatWasThere) {
  std::ofstream(path_) << "something longer than the new text";
  ResultFile("--json", path_).write("new");
  EXPECT_EQ(contents(), "new");
}

TEST_F(ResultFileTest, LeavesAnOldFileAloneWhenNothingIsWritten) {
  std::ofstream(path_) << "old";
  { ResultFile file("--json", path_); }
  EXPECT_EQ(contents(), "old");
}

TEST_F(ResultFileTest, LeavesNoEmptyFileWhenNothingIsWritten) {
  { ResultFile file("--json", path_); }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ResultFileTest, RefusesAtOnceWhatCannotBeWritten) {
  std::string missing = (folder_ / "missing" / "results.json").string();
  try {
    ResultFile file("--json", missing);
    FAIL() << "accepted " << missing;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(missing));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("No such file or directory"));
  }
  EXPECT_THROW(ResultFile("--json", ""), UsageError);
  EXPECT_THROW(ResultFile("--json", folder_.string()), UsageError);
}

TEST_F(ResultFileTest, OnePlaceIsNotForBoth) {
  fs::create_symlink(path_, folder_ / "other.csv");
  EXPECT_THROW(ResultOutputs(path_, path_), UsageError);
  EXPECT_THROW(ResultOutputs(path_, (folder_ / "." / "results.json").string()), UsageError);
  EXPECT_THROW(ResultOutputs(path_, (folder_ / "other.csv").string()), UsageError);
  EXPECT_THROW(ResultOutputs("-", "-"), UsageError);
  EXPECT_FALSE(fs::exists(path_)) << "a refusal left a file";
  EXPECT_NO_THROW(ResultOutputs("/dev/null", "/dev/null"));
  EXPECT_NO_THROW(ResultOutputs(path_, (folder_ / "results.csv").string()));
}

TEST_F(ResultFileTest, FilesAreThereBeforeAnybodyIsTold) {
  ResultOutputs outputs(path_, {});
  std::string seen;
  outputs.publish(Results(), [&](std::FILE* stream) {
    EXPECT_EQ(stream, stdout);
    seen = contents();
  });
  EXPECT_THAT(seen, ::testing::HasSubstr("strata-results/1"));
}

TEST_F(ResultFileTest, AFileThatCannotBeWrittenKeepsNothingElseFromBeingTold) {
  ResultOutputs outputs("/dev/full", path_);
  bool is_told = false;
  EXPECT_THROW(outputs.publish(Results(), [&](std::FILE*) { is_told = true; }), std::system_error);
  EXPECT_TRUE(is_told);
  EXPECT_THAT(contents(), ::testing::StartsWith("scenario,contender"));
}

TEST_F(ResultFileTest, SaysSoWhenTheDiskIsFull) {
  ResultFile file("--json", "/dev/full");
  EXPECT_THROW(file.write("text"), std::system_error);
}

}  // namespace
}  // namespace strata::cli
