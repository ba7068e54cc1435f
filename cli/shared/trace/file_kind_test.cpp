#include "shared/trace/file_kind.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/trace/layout.h"

namespace strata {
namespace {

TEST(FileKind, IsKnownByTheBeginning) {
  const std::string magic(trace::kFileMagic, sizeof trace::kFileMagic);
  EXPECT_EQ(file_kind_of(magic + "more"), FileKind::kTrace);
  EXPECT_EQ(file_kind_of("operation,time_ns\n"), FileKind::kCalls);
  EXPECT_EQ(file_kind_of("\xEF\xBB\xBFoperation,time_ns\n"), FileKind::kCalls);
  EXPECT_EQ(file_kind_of("\x1f\x8b\x08"), FileKind::kProfile);
  for (const char* other : {"", "\n", "operations,", "thread,operation,", "[{}]", "\x1f"}) {
    EXPECT_EQ(file_kind_of(other), FileKind::kOther) << other;
  }
}

TEST(FileKind, OfJsonIsThatOfItsSchema) {
  for (const char* begin :
       {"{\"schema\":\"", "{\n  \"schema\": \"", "\xEF\xBB\xBF\r\n{ \"schema\" :\t\""}) {
    EXPECT_EQ(file_kind_of(begin + std::string("strata-results/1\",")), FileKind::kResults)
        << begin;
    EXPECT_EQ(file_kind_of(begin + std::string("strata-stats/1\"}")), FileKind::kStatistics)
        << begin;
    EXPECT_EQ(file_kind_of(begin + std::string("other/1\"}")), FileKind::kOtherJson) << begin;
  }
  for (const char* other :
       {"{", " {}", "{\"schema\"", "{\"schema\":", "{\"name\": \"strata-stats/1\"}"}) {
    EXPECT_EQ(file_kind_of(other), FileKind::kOtherJson) << other;
  }
}

TEST(FileKind, OfIndentedResultsIsKnownByAsManyBytesAsATraceHas) {
  const std::string results = "{\n    \"schema\": \"strata-results/1\",\n";
  EXPECT_EQ(file_kind_of(results.substr(0, sizeof(trace::FileHeader))), FileKind::kResults);
}

}  // namespace
}  // namespace strata
