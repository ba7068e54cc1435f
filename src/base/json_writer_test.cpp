#include "base/json_writer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/text_sink.h"

namespace strata {
namespace {

template <typename Body>
std::string written(Body body) {
  char buffer[512];
  BufferSink sink(buffer, sizeof buffer);
  JsonWriter json(sink);
  body(json);
  EXPECT_LT(sink.length(), sizeof buffer);
  return buffer;
}

TEST(JsonWriter, PutsCommasBetweenValuesAndNowhereElse) {
  EXPECT_EQ(written([](JsonWriter& json) {
              json.begin_object().number("a", 1).begin_object("b").end_object();
              json.begin_array("c").begin_object().number("d", 0).end_object();
              json.begin_object().end_object().end_array().text("e", "f").end_object();
            }),
            R"({"a":1,"b":{},"c":[{"d":0},{}],"e":"f"})");
}

TEST(JsonWriter, WritesTheLargestNumber) {
  EXPECT_EQ(written([](JsonWriter& json) {
              json.begin_object().number("n", 18446744073709551615u).end_object();
            }),
            R"({"n":18446744073709551615})");
}

TEST(JsonWriter, EscapesWhatATextMustNotHold) {
  EXPECT_EQ(written([](JsonWriter& json) {
              json.begin_object().text("q\"", "a\\b\nc\x1f").end_object();
            }),
            "{\"q\\\"\":\"a\\\\b\\u000ac\\u001f\"}");
}

TEST(JsonWriter, WhatIsNoCharacterIsReplacedAndCharactersStay) {
  const struct {
    std::string_view text;
    std::string_view written;
  } cases[] = {{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"},
               {"a\xff", "a\\ufffd"},
               {"\xc3", "\\ufffd"},
               {"\xe2\x82", "\\ufffd\\ufffd"},
               {"\xc0\xaf", "\\ufffd\\ufffd"},             // longer than needed
               {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},  // a surrogate
               {"\xf4\x90\x80\x80z", "\\ufffd\\ufffd\\ufffd\\ufffdz"},
               {"\xe2\"\xac", "\\ufffd\\\"\\ufffd"}};
  for (const auto& each : cases) {
    EXPECT_EQ(written([&](JsonWriter& json) { json.text("", each.text); }),
              '"' + std::string(each.written) + '"');
  }
}

TEST(BufferSink, KeepsWhatFitsAndCountsAll) {
  char buffer[6] = "?????";
  BufferSink sink(buffer, 5);
  EXPECT_STREQ(buffer, "");
  sink.write("abc");
  EXPECT_STREQ(buffer, "abc");
  sink.write("defgh");
  EXPECT_STREQ(buffer, "abcd");
  sink.write("i");
  EXPECT_STREQ(buffer, "abcd");
  EXPECT_EQ(sink.length(), 9u);
}

TEST(BufferSink, WithoutABufferItOnlyCounts) {
  BufferSink sink(nullptr, 0);
  sink.write("abc");
  EXPECT_EQ(sink.length(), 3u);
}

TEST(FileSink, WritesMoreThanItsBufferHoldsAndAppends) {
  const std::string path = ::testing::TempDir() + "strata_file_sink_test";
  std::remove(path.c_str());
  const std::string long_text(5000, 'x');
  for (int i = 0; i < 2; ++i) {
    FileSink sink(path.c_str());
    sink.write("begin ");
    sink.write(long_text);
    sink.write(" end\n");
  }
  std::string found(20'000, '\0');
  FILE* file = std::fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr);
  found.resize(std::fread(found.data(), 1, found.size(), file));
  std::fclose(file);
  std::remove(path.c_str());
  EXPECT_EQ(found, "begin " + long_text + " end\nbegin " + long_text + " end\n");
}

/// Catches what is written to standard error, one write at a time.
class CaughtWrites {
 public:
  CaughtWrites() : before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends_), 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~CaughtWrites() {
    dup2(before_, STDERR_FILENO);
    for (const int each : {before_, ends_[0], ends_[1]}) close(each);
  }
  std::string next() const {
    std::string text(100'000, '\0');
    const ssize_t count = recv(ends_[0], text.data(), text.size(), MSG_DONTWAIT);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
  }

 private:
  int before_;
  int ends_[2];
};

TEST(FileSink, WhatFitsIsOneWriteAndLongerTextIsWrittenByWholeLines) {
  const CaughtWrites caught;
  const std::string line(99, 'x');
  std::size_t lines = 0;
  {
    FileSink sink("");
    for (; lines < FileSink::kBytes / 100; ++lines) sink.write(line + "\n");
  }
  EXPECT_EQ(caught.next().size(), lines * 100);
  {
    FileSink sink("");
    for (std::size_t i = 0; i < 2 * lines; ++i) sink.write(line + "\n");
  }
  const std::string first = caught.next();
  EXPECT_EQ(first.size(), lines * 100);
  EXPECT_EQ(first.size() + caught.next().size(), 2 * lines * 100);
}

TEST(FileSink, WhereTheFileIsFullStandardErrorServes) {
  ::testing::internal::CaptureStderr();
  { FileSink("/dev/full").write("hello\n"); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "strata: warning: the file /dev/full cannot be written: No space left on device; "
            "standard error is used\nhello\n");
}

TEST(FileSink, WhereTheFileCannotBeOpenedStandardErrorServes) {
  ::testing::internal::CaptureStderr();
  { FileSink("/no/such/folder/file").write("hello\n"); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "strata: warning: the file /no/such/folder/file cannot be written: No such file or "
            "directory; standard error is used\nhello\n");
}

TEST(FileSink, AFileWithALongNameStillHasItsReason) {
  const std::string path = "/no/such\n/" + std::string(4000, 'x');
  ::testing::internal::CaptureStderr();
  { FileSink(path.c_str()).write("hello\n"); }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("strata: warning: the file /no/such?/xxx"), 0u) << said;
  EXPECT_NE(said.find("xxx cannot be written: No such file or directory; standard error is used\n"
                      "hello\n"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace strata
