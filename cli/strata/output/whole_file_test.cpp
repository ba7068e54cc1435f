#include "output/whole_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <ostream>
#include <sstream>
#include <system_error>

#include "input/usage_error.h"
#include "measure/result_outputs.h"
#include "process/temporary_folder.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

/// Meanwhile no file of this process can grow beyond a thousand bytes.
class FullDisk {
 public:
  FullDisk() : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &earlier_);
    const rlimit little{1000, earlier_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &little);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &earlier_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit earlier_{};
  sighandler_t handler_;
};

/// Meanwhile signals come as fast as they can, and look for a file.
class SignalsThatLook {
 public:
  explicit SignalsThatLook(const char* file) : handler_(::signal(SIGALRM, look)) {
    file_ = file;
    looks_ = 0;
    has_seen_ = 0;
    constexpr itimerval kOften{{0, 20}, {0, 20}};
    ::setitimer(ITIMER_REAL, &kOften, nullptr);
  }
  ~SignalsThatLook() {
    constexpr itimerval kNever{};
    ::setitimer(ITIMER_REAL, &kNever, nullptr);
    ::signal(SIGALRM, handler_);
  }
  SignalsThatLook(const SignalsThatLook&) = delete;
  SignalsThatLook& operator=(const SignalsThatLook&) = delete;

  static int looks() { return looks_; }
  static bool has_seen() { return has_seen_ != 0; }

 private:
  static void look(int) {
    const int error = errno;
    if (::access(file_, F_OK) == 0) has_seen_ = 1;
    looks_ = looks_ + 1;
    errno = error;
  }

  static inline const char* file_ = nullptr;
  static inline volatile std::sig_atomic_t looks_ = 0;
  static inline volatile std::sig_atomic_t has_seen_ = 0;
  sighandler_t handler_;
};

class WholeFileTest : public ::testing::Test {
 protected:
  static std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string contents() const { return contents(path_); }
  static void make(const std::string& path, std::string_view text) {
    WholeFile file("-o", path);
    EXPECT_TRUE(file.write(text));
    file.commit();
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  }
  mode_t mode() const {
    struct stat status {};
    ::stat(path_.c_str(), &status);
    return status.st_mode & 0777;
  }

  TemporaryFolder folder_{"strata-file"};
  std::string path_ = folder_.file("results.json");
};

TEST_F(WholeFileTest, ReplacesWhatWasThere) {
  std::ofstream(path_) << "something longer than the new text";
  make(path_, "new");
  EXPECT_EQ(contents(), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, AFailingWriteLeavesWhatWasThere) {
  std::ofstream(path_) << "old";
  {
    const FullDisk disk;
    WholeFile file("-o", path_);
    std::ostream stream(&file);
    stream << std::string(100'000, 'x');
    EXPECT_FALSE(stream);
    EXPECT_EQ(refused_with<std::system_error>([&] { file.commit(); }),
              "could not write '" + path_ + "': File too large");
  }
  EXPECT_EQ(contents(), "old");
  EXPECT_EQ(files(), 1) << "what was written of the new one is still there";
}

TEST_F(WholeFileTest, AFolderThatCannotBeLookedIntoIsRefused) {
  const fs::path loop = folder_.file("loop");
  fs::create_symlink(loop, loop);
  for (const fs::path& folder : {loop, fs::path(folder_.file(std::string(5000, 'x')))}) {
    EXPECT_THROW(WholeFile("-o", folder / "results.json"), UsageError) << folder;
    EXPECT_EQ(behind_links(folder / "results.json"), folder / "results.json");
  }
}

TEST_F(WholeFileTest, WhatIsNotCommittedIsNotThere) {
  {
    WholeFile file("-o", path_);
    EXPECT_EQ(files(), 0) << "what ends us now leaves something";
    file.write(std::string(100'000, 'x'));
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_EQ(files(), 0);
  std::ofstream(path_) << "old";
  WholeFile("-o", path_).write("new");
  EXPECT_EQ(contents(), "old");
}

TEST_F(WholeFileTest, ALinkStillLeadsToTheFile) {
  const std::string link = folder_.file("link");
  fs::create_symlink("results.json", link);
  make(link, "first");
  make(link, "second");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_FALSE(fs::is_symlink(path_));
  EXPECT_EQ(contents(), "second");
}

TEST_F(WholeFileTest, KeepsTheModeOfTheFileThatWasThere) {
  const mode_t mask = ::umask(022);
  make(path_, "first");
  EXPECT_EQ(mode(), 0644);
  ::chmod(path_.c_str(), 0662);
  make(path_, "second");
  EXPECT_EQ(mode(), 0662);
  ::umask(mask);
}

TEST_F(WholeFileTest, APipeIsWrittenAsItComes) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  make(path_, "text");
  char text[5] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  EXPECT_TRUE(fs::is_fifo(path_));
  ::close(reader);
}

TEST_F(WholeFileTest, TheFileOfStandardOutputIsStandardOutput) {
  ::fflush(stdout);
  const int earlier = ::dup(STDOUT_FILENO);
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(fd, STDOUT_FILENO);
  const bool is_found = WholeFile("-o", "/dev/stdout").is_standard_output() &&
                        WholeFile("-o", path_).is_standard_output();
  make("/dev/stdout", "one, ");
  make("-", "two");
  ::dup2(earlier, STDOUT_FILENO);
  ::close(earlier);
  ::close(fd);
  EXPECT_TRUE(is_found);
  EXPECT_EQ(contents(), "one, two");
}

TEST_F(WholeFileTest, RefusesAtOnceWhatCannotBeWritten) {
  const std::string missing = folder_.file("missing/results.json");
  EXPECT_THAT(refused_with<UsageError>([&] { WholeFile("--json", missing); }),
              ::testing::AllOf(::testing::HasSubstr(missing),
                               ::testing::HasSubstr("No such file or directory")));
  EXPECT_THROW(WholeFile("--json", ""), UsageError);
  EXPECT_THROW(WholeFile("--json", folder_.path()), UsageError);
  EXPECT_THROW(WholeFile("--json", folder_.file("name/")), UsageError);
}

TEST_F(WholeFileTest, NoSignalFindsTheFileThatIsMadeAsATrial) {
  const std::string beside = path_ + "." + std::to_string(::getpid()) + ".0.new";
  const SignalsThatLook signals(beside.c_str());
  while (SignalsThatLook::looks() < 1000) const WholeFile file("-o", path_);
  EXPECT_FALSE(SignalsThatLook::has_seen());
}

TEST_F(WholeFileTest, RefusesWhatIsRead) {
  const std::vector<std::string> inputs = {"/no/file", path_};
  EXPECT_THROW(WholeFile("-o", path_, inputs), UsageError);
  std::ofstream(path_) << "read";
  const std::string link = folder_.file("link");
  const std::string second = folder_.file("second");
  fs::create_symlink(path_, link);
  fs::create_hard_link(path_, second);
  for (const std::string& name : {path_, link, second, folder_.file("./results.json")}) {
    EXPECT_THROW(WholeFile("-o", name, inputs), UsageError) << name;
  }
  EXPECT_NO_THROW(WholeFile("-o", folder_.file("other"), inputs));
  EXPECT_NO_THROW(WholeFile("-o", "/dev/null", {"/dev/null"}));
  EXPECT_EQ(contents(), "read");
}

TEST_F(WholeFileTest, SaysSoWhenADeviceIsFull) {
  WholeFile file("--json", "/dev/full");
  file.write("text");
  EXPECT_THROW(file.commit(), std::system_error);
}

TEST_F(WholeFileTest, OnePlaceIsNotForTwoResults) {
  fs::create_symlink(path_, folder_.file("other.csv"));
  EXPECT_THROW(ResultOutputs(path_, path_), UsageError);
  EXPECT_THROW(ResultOutputs(path_, folder_.file("./results.json")), UsageError);
  EXPECT_THROW(ResultOutputs(path_, folder_.file("other.csv")), UsageError);
  EXPECT_THROW(ResultOutputs("-", "-"), UsageError);
  EXPECT_FALSE(fs::exists(path_)) << "a refusal left a file";
  EXPECT_NO_THROW(ResultOutputs("/dev/null", "/dev/null"));
  EXPECT_NO_THROW(ResultOutputs(path_, folder_.file("results.csv")));
}

TEST_F(WholeFileTest, ResultsAreThereBeforeAnybodyIsTold) {
  ResultOutputs outputs(path_, {});
  std::string seen;
  outputs.publish(Results(), [&](std::FILE* stream) {
    EXPECT_EQ(stream, stdout);
    seen = contents();
  });
  EXPECT_THAT(seen, ::testing::HasSubstr("strata-results/1"));
}

TEST_F(WholeFileTest, ResultsThatCannotBeWrittenKeepNothingElseFromBeingTold) {
  ResultOutputs outputs("/dev/full", path_);
  bool is_told = false;
  EXPECT_THROW(outputs.publish(Results(), [&](std::FILE*) { is_told = true; }), std::system_error);
  EXPECT_TRUE(is_told);
  EXPECT_THAT(contents(), ::testing::StartsWith("scenario,contender"));
}

}  // namespace
}  // namespace strata::cli
