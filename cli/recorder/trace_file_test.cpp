#include "recorder/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "shared/trace/reader.h"

namespace strata::recorder {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TraceFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "trace_file_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    file_.use(memory_.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  bool open(const fs::path& pattern) {
    pattern_ = pattern.string();
    Settings settings;
    settings.file = pattern_.c_str();
    return file_.open(settings, 17, "/lib/allocator.so");
  }
  /// The name of the file that was opened and ended; empty if none was.
  std::string name_of_trace(const char* pattern) {
    if (!open(folder_ / pattern)) return {};
    file_.end("reason=exit\n");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (names_.insert(name).second) return name;
    }
    return {};
  }

  fs::path folder_;
  std::set<std::string> names_;  // of the traces so far
  std::string pattern_;
  std::vector<char> memory_ = std::vector<char>(TraceFile::kBytes);
  TraceFile file_;
};

TEST_F(TraceFileTest, BeginsWithTheProcessAndEndsWithTheLastBlock) {
  EXPECT_EQ(name_of_trace("trace"), "trace");
  EXPECT_FALSE(file_.is_open());
  trace::Reader reader((folder_ / "trace").string());
  trace::Event event;
  EXPECT_FALSE(reader.next(event));
  EXPECT_EQ(reader.process().at("pid"), "17");
  EXPECT_EQ(reader.process().at("stacks"), "off");
  EXPECT_EQ(reader.process().at("allocator"), "/lib/allocator.so");
  EXPECT_EQ(reader.ending().at("reason"), "exit");
}

TEST_F(TraceFileTest, TakesTheFirstNameThatNoFileHas) {
  EXPECT_EQ(name_of_trace("trace"), "trace");
  EXPECT_EQ(name_of_trace("trace"), "trace.17");
  EXPECT_EQ(name_of_trace("trace"), "trace.17.2");
  EXPECT_EQ(name_of_trace("of-%p"), "of-17");
  EXPECT_EQ(name_of_trace("of-%p"), "of-17.2");
  EXPECT_EQ(name_of_trace("of-%p"), "of-17.3");
}

TEST_F(TraceFileTest, SaysWhyItCannotBeCreated) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(open(folder_ / "missing" / "trace"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be created"));
  EXPECT_FALSE(file_.is_open());
}

TEST_F(TraceFileTest, SaysWhereItEndsWhenTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(open("/dev/full"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the trace '/dev/full' ends here, because it could not be written"));
  EXPECT_FALSE(file_.is_open());
}

}  // namespace
}  // namespace strata::recorder
