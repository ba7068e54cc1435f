#include "process/program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "input/usage_error.h"
#include "process/elf_file.h"
#include "process/environment.h"
#include "process/temporary_folder.h"

namespace strata::cli {
namespace {

int status_of(const std::string& name) {
  try {
    find_program(name);
  } catch (const UsageError& error) {
    return error.status();
  }
  return 0;
}

TEST(Program, IsFoundInPathOrByItsPath) {
  EXPECT_TRUE(find_program("sh").ends_with("/sh"));
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
}

TEST(Program, RefusalsCarryTheStatusOfTheShell) {
  EXPECT_EQ(status_of("no-such-program-anywhere"), 127);
  EXPECT_EQ(status_of("/no/such/program"), 127);
  EXPECT_EQ(status_of(""), 127);
  EXPECT_EQ(status_of("/etc/passwd"), 126);
  EXPECT_EQ(status_of("/etc"), 126);
}

TEST(Program, AnOrdinaryOneCanBeGivenAnotherMalloc) {
  EXPECT_EQ(why_not_preloadable("/bin/sh"), "");
  EXPECT_EQ(linked_allocator("/bin/sh"), "");
  EXPECT_EQ(linked_library("/bin/sh"), "");
}

TEST(ElfFile, TellsProgramsLibrariesAndOtherFilesApart) {
  ElfFile program("/bin/sh");
  EXPECT_TRUE(program.is_elf);
  EXPECT_TRUE(program.is_for_this_machine);
  EXPECT_TRUE(program.has_interpreter);
  EXPECT_FALSE(program.defines("malloc"));
  EXPECT_FALSE(program.needed.empty());

  ElfFile text("/etc/passwd");
  EXPECT_TRUE(text.is_readable);
  EXPECT_FALSE(text.is_elf);

  EXPECT_FALSE(ElfFile("/no/such/file").is_readable);
  EXPECT_FALSE(ElfFile("/etc").is_readable);
  EXPECT_FALSE(ElfFile("/dev/null").is_readable);
  const TemporaryFolder folder("test");
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(ElfFile(pipe).is_readable) << "and nobody need write to it";
}

TEST(Environment, PutsALibraryInFrontOfThoseThatAreThere) {
  Environment environment;
  environment.preload("/a.so");
  EXPECT_EQ(environment.get("LD_PRELOAD"), "/a.so");
  environment.preload("/b.so");
  EXPECT_EQ(environment.get("LD_PRELOAD"), "/b.so:/a.so");
}

TEST(Environment, KeepsPreloadedLibrariesThatAreNoAllocators) {
  Environment environment;
  environment.set("LD_PRELOAD", "/no/such.so /other.so");
  environment.drop_preloaded_allocators();
  EXPECT_EQ(environment.get("LD_PRELOAD"), "/no/such.so:/other.so");
}

TEST(Environment, JudgesTheFileThatTheDynamicLinkerTookForAName) {
  Environment environment;
  environment.set("LD_PRELOAD", "libm.so.6:libc.so.6:/no/such.so:no-such.so:$ORIGIN/no-such.so");
  environment.drop_preloaded_allocators();
  EXPECT_EQ(environment.get("LD_PRELOAD"), "libm.so.6:/no/such.so");
}

TEST(Environment, TellsWhichAllocatorTheMachinePutsIntoEveryProgram) {
  const TemporaryFolder folder("test");
  const std::string list = folder.file("list");
  const auto with = [&](const char* text) {
    std::ofstream(list) << text;
    return preloaded_everywhere(list);
  };
  EXPECT_TRUE(
      with("# libc.so.6\n/no/such.so:libm.so.6\tlibc.so.6 # mine\n").ends_with("/libc.so.6"));
  EXPECT_EQ(with("# libc.so.6\nlibm.so.6 /no/such.so\n"), "");
  EXPECT_EQ(preloaded_everywhere(folder.file("none")), "");
}

}  // namespace
}  // namespace strata::cli
