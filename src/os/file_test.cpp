#include "os/file.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "os/child_in_test.h"
#include "os/emulation.h"
#include "os/process.h"
#include "os/resources.h"
#include "os/stack.h"
#include "os/symbol.h"

namespace strata::os {
namespace {

struct FileTest : ::testing::Test {
  FileTest() {
    char pattern[] = "/tmp/strata_file_XXXXXX";
    folder = mkdtemp(pattern);
  }
  ~FileTest() override { std::filesystem::remove_all(folder); }

  std::string content(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  std::string folder;
};

TEST_F(FileTest, AppendsToAFileThatExistsOrNot) {
  const std::string path = folder + "/out";
  errno = EDOM;
  for (const char* text : {"one\n", "two\n"}) {
    const int opened = open_to_append(path.c_str());
    ASSERT_GE(opened, 0);
    EXPECT_EQ(write_file(opened, text), 0);
    close_file(opened);
  }
  EXPECT_EQ(errno, EDOM);
  EXPECT_EQ(content(path), "one\ntwo\n");
}

TEST_F(FileTest, WhatCannotBeOpenedOrWrittenSaysWhy) {
  errno = EDOM;
  EXPECT_EQ(open_to_append((folder + "/missing/out").c_str()), -ENOENT);
  EXPECT_EQ(open_to_append(folder.c_str()), -EISDIR);
  const int full = open_to_append("/dev/full");
  EXPECT_EQ(write_file(full, "text"), ENOSPC);
  close_file(full);
  EXPECT_EQ(errno, EDOM);
}

TEST_F(FileTest, AFileIsReplacedWhenAllOfItIsWritten) {
  const std::string path = folder + "/out";
  std::ofstream(path) << "before";
  NewFile file;
  ASSERT_TRUE(file.open(path.c_str()));
  file.write("after");
  EXPECT_EQ(content(path), "before");
  file.write(" all");
  EXPECT_TRUE(file.commit());
  EXPECT_EQ(content(path), "after all");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, WhatIsNotCommittedLeavesNothingBehind) {
  {
    NewFile file;
    ASSERT_TRUE(file.open((folder + "/out").c_str()));
    file.write("half");
    EXPECT_EQ(files(), 1u);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileTest, AFileThatCannotBeWrittenHasItsReason) {
  errno = 7;
  NewFile file;
  EXPECT_FALSE(file.open((folder + "/none/out").c_str()));
  EXPECT_STREQ(file.reason(), "No such file or directory");
  NewFile endless;
  EXPECT_FALSE(endless.open(std::string(5000, 'x').c_str()));
  EXPECT_STREQ(endless.reason(), "File name too long");
  std::filesystem::create_directory(folder + "/taken");
  NewFile taken;
  EXPECT_FALSE(taken.open((folder + "/taken").c_str()));
  EXPECT_STREQ(taken.reason(), "Is a directory");
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(errno, 7);
}

TEST_F(FileTest, FilesOfOnePathDoNotDisturbEachOther) {
  const std::string path = folder + "/out";
  // The file that an earlier process with this process ID left when it was killed.
  std::ofstream(path + "." + std::to_string(process_id()) + ".0.new") << "left";
  NewFile first;
  NewFile second;
  ASSERT_TRUE(first.open(path.c_str()));
  first.write("the first, which is longer");
  ASSERT_TRUE(second.open(path.c_str()));
  second.write("the second");
  EXPECT_TRUE(first.commit());
  EXPECT_EQ(content(path), "the first, which is longer");
  EXPECT_TRUE(second.commit());
  EXPECT_EQ(content(path), "the second");
}

TEST_F(FileTest, WhatIsNoRegularFileIsWrittenToAndStaysWhatItIs) {
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  NewFile to_pipe;
  ASSERT_TRUE(to_pipe.open(pipe.c_str()));
  to_pipe.write("through");
  EXPECT_TRUE(to_pipe.commit());
  char text[100];
  EXPECT_EQ(read(reader, text, sizeof text), 7);
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));

  const std::string link = folder + "/link";
  const std::string target = folder + "/target";
  std::ofstream(target) << "what was there before";
  std::filesystem::create_symlink(target, link);
  NewFile to_target;
  ASSERT_TRUE(to_target.open(link.c_str()));
  to_target.write("after");
  EXPECT_TRUE(to_target.commit());
  EXPECT_EQ(content(target), "after");
  EXPECT_TRUE(std::filesystem::is_symlink(link));

  const std::string full = folder + "/full";
  std::filesystem::create_symlink("/dev/full", full);
  NewFile to_full;
  ASSERT_TRUE(to_full.open(full.c_str()));
  to_full.write("lost");
  EXPECT_FALSE(to_full.commit());
  EXPECT_STREQ(to_full.reason(), "No space left on device");
  EXPECT_EQ(files(), 4u);
}

TEST_F(FileTest, LinesAreReadWhateverTheirLengthAndEnd) {
  const std::string path = folder + "/lines";
  for (const char* end : {"", "\n"}) {
    std::vector<std::string> written;
    {
      std::ofstream out(path);
      for (std::size_t i = 0; i < 300; ++i) {
        written.emplace_back(i * 7 % 200, static_cast<char>('a' + i % 26));
        out << (i == 0 ? "" : "\n") << written.back();
      }
      out << "\nlast" << end;
      written.emplace_back("last");
    }
    LineReader reader(path.c_str());
    std::string_view line;
    for (const std::string& expected : written) {
      ASSERT_TRUE(reader.next(line));
      ASSERT_EQ(line, expected);
    }
    EXPECT_FALSE(reader.next(line));
  }
  for (const std::size_t length : {4096u, 4352u, 4353u, 9000u, 50'000u}) {
    for (const char* last : {"", "last", "last\n"}) {
      const std::string line_of_many(length, 'x');
      std::ofstream(path) << "first\n"
                          << line_of_many << "\nsecond\n"
                          << line_of_many << '\n'
                          << last;
      LineReader reader(path.c_str());
      std::vector<std::string> read;
      for (std::string_view line; reader.next(line);) {
        if (line != line_of_many) read.emplace_back(line);
      }
      const std::string rest(last, std::min<std::size_t>(std::strlen(last), 4));
      EXPECT_EQ(read.size(), rest.empty() ? 2u : 3u) << length;
      EXPECT_EQ(read[0] + read[1] + (rest.empty() ? "" : read[2]), "firstsecond" + rest) << length;
    }
    std::ofstream(path) << std::string(length, 'x');
    LineReader reader(path.c_str());
    std::string_view line;
    EXPECT_EQ(reader.next(line), length <= 4096) << length;
  }
  LineReader none((folder + "/none").c_str());
  std::string_view line;
  EXPECT_FALSE(none.next(line));
}

TEST_F(FileTest, TheNewlinesOfAPathAreWhereTheyWere) {
  std::ofstream(folder + "/maps") << "x /a\\012\\012b\\01\\012\nx /plain\n";
  LineReader reader((folder + "/maps").c_str());
  std::string_view line;
  ASSERT_TRUE(reader.next(line));
  const std::string_view path = reader.with_newlines(line.substr(2));
  EXPECT_EQ(path, "/a\n\nb\\01\n");
  EXPECT_STREQ(path.data(), "/a\n\nb\\01\n");
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(reader.with_newlines(line.substr(2)), "/plain");
}

TEST_F(FileTest, ThisProgramIsAmongTheCodeThatIsMapped) {
  LineReader maps("/proc/self/maps");
  const auto here = reinterpret_cast<std::uintptr_t>(&parse_code_mapping);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  int found = 0;
  for (std::string_view line; maps.next(line);) {
    CodeMapping code;
    if (!parse_code_mapping(line, code) || code.path != self) continue;
    found += here >= code.start && here < code.end;
  }
  EXPECT_EQ(found, 1);
  CodeMapping code;
  EXPECT_FALSE(parse_code_mapping("7f00-7f10 r--p 00000000 fe:01 12 /lib/x.so", code));
  EXPECT_FALSE(parse_code_mapping("7f00-7f10 r-xp 00000000 00:00 0 [vdso]", code));
  EXPECT_FALSE(parse_code_mapping("", code));
  ASSERT_TRUE(parse_code_mapping("7f00-7f10 r-xp 00001000 fe:01 12   /lib/a b.so", code));
  EXPECT_EQ(code.start, 0x7f00u);
  EXPECT_EQ(code.end, 0x7f10u);
  EXPECT_EQ(code.offset, 0x1000u);
  EXPECT_EQ(code.path, "/lib/a b.so");
}

TEST_F(FileTest, TheBuildIdIsTheLinkers) {
  char id[128];
  const std::size_t digits = read_build_id("/bin/ls", id, sizeof id);
  EXPECT_EQ(std::string_view(id, digits).find_first_not_of("0123456789abcdef"),
            std::string_view::npos);
  EXPECT_EQ(digits, 40u) << "a SHA-1, as Debian links";
  EXPECT_EQ(read_build_id("/etc/passwd", id, sizeof id), 0u);
  EXPECT_EQ(read_build_id("/none", id, sizeof id), 0u);
}

/// A note of a file of code: its header, its name, and what it says.
std::string note_of(const std::string& name, std::uint32_t type, const std::string& said) {
  const std::size_t name_bytes = name.size() + 1;
  const ElfW(Nhdr)
      header{static_cast<std::uint32_t>(name_bytes), static_cast<std::uint32_t>(said.size()), type};
  std::string note(reinterpret_cast<const char*>(&header), sizeof header);
  note.append(name.c_str(), name_bytes).resize((note.size() + 3) / 4 * 4);
  return note.append(said);
}

/// A file of code with one segment of notes.
std::string with_notes(const std::string& notes) {
  ElfW(Ehdr) header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = 1;
  ElfW(Phdr) segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = notes.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header)
      .append(reinterpret_cast<const char*>(&segment), sizeof segment)
      .append(notes);
}

TEST_F(FileTest, TheBuildIdIsFoundBehindOtherNotesUnlessItIsCutOff) {
  const std::string path = folder + "/code";
  const std::string notes = note_of({"GNU\0 as well", 12}, NT_GNU_BUILD_ID, "8 bytes.") +
                            note_of("GNU", NT_GNU_ABI_TAG, "8 bytes.") +
                            note_of("GNU", NT_GNU_BUILD_ID, "\x12\x34\xab\xcd");
  char id[128];
  std::ofstream(path) << with_notes(notes);
  const std::size_t digits = read_build_id(path.c_str(), id, sizeof id);
  EXPECT_EQ(std::string_view(id, digits), "1234abcd");
  for (std::size_t bytes = 0; bytes < notes.size(); ++bytes) {
    std::ofstream(path) << with_notes(notes.substr(0, bytes));
    EXPECT_EQ(read_build_id(path.c_str(), id, sizeof id), 0u) << bytes;
  }
}

[[gnu::noinline]] std::size_t inner(std::uintptr_t* frames, std::size_t capacity) {
  const std::size_t count = capture_stack(frames, capacity);
  asm volatile("" ::: "memory");  // no tail call
  return count;
}

TEST(Stack, ItsFramesLeadThroughTheCallers) {
  std::uintptr_t frames[64];
  ASSERT_TRUE(prepare_stacks());
  const std::size_t depth = inner(frames, 64);
  ASSERT_GE(depth, 4u);
  EXPECT_EQ(inner(frames, 2), 2u);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their backtrace() stands first
  CodePlace place;
  ASSERT_TRUE(find_code(reinterpret_cast<void*>(frames[0]), place));
  EXPECT_NE(std::strstr(place.module, "os_test"), nullptr);
#endif
}

TEST(FindMapping, NamesWhatLiesAtAnAddress) {
  static int of_the_program = 1;
  int on_the_stack = 0;
  Mapping mapping;
  find_mapping(&of_the_program, mapping);
  EXPECT_EQ(mapping.kind, Mapping::Kind::kNamed);
  EXPECT_NE(std::string(mapping.name).find("os_test"), std::string::npos) << mapping.name;
  mapping = {};
  find_mapping(&on_the_stack, mapping);
  if (knows_pages()) {
    EXPECT_EQ(mapping.kind, Mapping::Kind::kNamed);
    EXPECT_STREQ(mapping.name, "[stack]");
  }
  mapping = {};
  find_mapping(reinterpret_cast<void*>(16), mapping);
  EXPECT_EQ(mapping.kind, Mapping::Kind::kNothing);
}

/// Reads what the kernel says about the process once its first thread has ended.
void* look_without_first_thread(void*) {
  int left_ms = 10'000;
  while (std::ifstream("/proc/self/maps").get() != std::ifstream::traits_type::eof()) {
    if (left_ms-- == 0) _exit(5);
    usleep(1000);
  }
  static int of_the_program = 1;
  Mapping mapping;
  find_mapping(&of_the_program, mapping);
  if (mapping.kind != Mapping::Kind::kNamed) _exit(3);
  _exit(resident_bytes() != 0 ? 0 : 4);
}

TEST(FindMapping, KnowsWhatIsMappedWhenTheFirstThreadHasEnded) {
#ifdef __SANITIZE_THREAD__  // which ends a child that starts a thread
  GTEST_SKIP();
#endif
  if (kIsEmulated) GTEST_SKIP() << "the emulator knows the maps by another name only";
  const int status = status_in_child([&] {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, look_without_first_thread, nullptr) != 0) return 2;
    // Ends this thread only, without the exit handlers that pthread_exit() may run.
    return static_cast<int>(syscall(SYS_exit, 0));
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace strata::os
