#include "os/control_group.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace strata::os {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A folder that stands for the root of a system.
class ControlGroup : public ::testing::Test {
 protected:
  ControlGroup() : root_(::testing::TempDir() + "strata-cgroup-XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
    machine_ = allowed_memory_bytes(root_.c_str());
  }
  ~ControlGroup() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::size_t allowed() { return allowed_memory_bytes(root_.c_str()); }

  std::string root_;
  std::size_t machine_ = 0;  ///< where no group says anything
};

TEST_F(ControlGroup, WithoutGroupsTheMachineIsTheLimit) { EXPECT_GT(machine_, 64 * kMiB); }

TEST_F(ControlGroup, VersionTwoIsReadFromTheGroupUpwards) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/proc/self/mountinfo",
        "24 1 0:22 / / rw - ext4 /dev/x rw\n"
        "31 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.max", "67108864\n");
  write("/sys/fs/cgroup/a/memory.max", "134217728\n");
  EXPECT_EQ(allowed(), 64 * kMiB);
  write("/sys/fs/cgroup/a/b/c/memory.max", "33554432\n");
  EXPECT_EQ(allowed(), 32 * kMiB);
  write("/sys/fs/cgroup/a/memory.max", "4194304\n");
  EXPECT_EQ(allowed(), 4 * kMiB);
}

TEST_F(ControlGroup, InAContainerTheMountShowsItsOwnGroupAsTheRoot) {
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", "31 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write("/sys/fs/cgroup/memory.max", "50331648\n");
  EXPECT_EQ(allowed(), 48 * kMiB);
}

TEST_F(ControlGroup, VersionOneIsReadWhereItsMemoryControllerIs) {
  write("/proc/self/cgroup",
        "12:cpuset:/other\n4:hugetlb,memory:/docker/0123\n1:name=systemd:/docker/0123\n0::/x\n");
  write("/proc/self/mountinfo",
        "35 31 0:30 /docker/0123 /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
        "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,hugetlb,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "41943040\n");
  EXPECT_EQ(allowed(), 40 * kMiB);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_EQ(allowed(), machine_);
  write("/proc/self/cgroup", "4:hugetlb,memory:/docker/0123/inner\n");
  write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "20971520\n");
  EXPECT_EQ(allowed(), 20 * kMiB);
}

TEST_F(ControlGroup, VersionOneTellsTheLimitOfGroupsThatAContainerDoesNotSee) {
  write("/proc/self/cgroup", "4:memory:/docker/0123\n");
  write("/proc/self/mountinfo",
        "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.stat",
        "cache 4096\nunevictable 0\nhierarchical_memory_limit 41943040\ntotal_cache 0\n");
  EXPECT_EQ(allowed(), 40 * kMiB);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "20971520\n");
  EXPECT_EQ(allowed(), 20 * kMiB);
}

TEST_F(ControlGroup, NamesOfGroupsMayHaveBackslashesAndSpaces) {
  write("/proc/self/cgroup", "4:memory:/machine.slice/machine-a\\x2db.scope/the inner\n");
  write(
      "/proc/self/mountinfo",
      "35 31 0:32 /machine.slice/machine-a\\134x2db.scope /the\\040groups ro - cgroup c memory\n");
  write("/the groups/memory.limit_in_bytes", "41943040\n");
  EXPECT_EQ(allowed(), 40 * kMiB);
  write("/the groups/the inner/memory.limit_in_bytes", "20971520\n");
  EXPECT_EQ(allowed(), 20 * kMiB);
}

TEST_F(ControlGroup, AGroupIsNotWithinOneWhoseNameItOnlyBeginsWith) {
  write("/proc/self/cgroup", "4:memory:/docker/0123\n");
  write("/proc/self/mountinfo",
        "35 31 0:32 /docker/01 /sys/fs/cgroup/memory ro - cgroup cgroup memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "41943040\n");
  EXPECT_EQ(allowed(), 40 * kMiB);
}

TEST_F(ControlGroup, OfSeveralMountsOneThatHasTheGroupCounts) {
  // A container that has the host's groups as well; then one with another container's.
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo",
        "30 24 0:26 /../.. /host ro - cgroup2 cgroup rw\n"
        "31 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write("/sys/fs/cgroup/memory.max", "50331648\n");
  EXPECT_EQ(allowed(), 48 * kMiB);
  write("/proc/self/cgroup", "0::/mine\n");
  write("/proc/self/mountinfo",
        "30 24 0:26 /other /other ro - cgroup2 cgroup rw\n"
        "31 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
        "32 24 0:26 /another /another ro - cgroup2 cgroup rw\n");
  write("/other/memory.max", "4194304\n");
  write("/another/memory.max", "4194304\n");
  write("/sys/fs/cgroup/mine/memory.max", "33554432\n");
  EXPECT_EQ(allowed(), 32 * kMiB);
}

TEST_F(ControlGroup, AGroupOutsideOfItsNamespaceIsFoundWhereAMountHasIt) {
  write("/proc/self/cgroup", "0::/../sibling\n");
  write("/proc/self/mountinfo",
        "31 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
        "32 24 0:26 /.. /above ro - cgroup2 cgroup rw\n");
  write("/sys/fs/sibling/memory.max", "4194304\n");  // no group
  write("/above/sibling/memory.max", "33554432\n");
  EXPECT_EQ(allowed(), 32 * kMiB);
  write("/proc/self/cgroup", "0::/../../far\n");
  write("/far/memory.max", "4194304\n");  // no group
  EXPECT_EQ(allowed(), machine_);
}

TEST_F(ControlGroup, NonsenseIsNoLimit) {
  for (const char* text : {"", "\n", "max", "-1\n", "12x\n", "99999999999999999999999\n"}) {
    write("/proc/self/cgroup", "0::/\n");
    write("/proc/self/mountinfo", "31 24 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
    write("/cg/memory.max", text);
    EXPECT_EQ(allowed(), machine_) << text;
  }
  write("/cg/memory.max", "8192\n");
  for (const char* text : {"", "\n", ":", "::", "0:", "\n\n0::/\n\n", "no colons at all"}) {
    write("/proc/self/cgroup", text);
    EXPECT_TRUE(allowed() == machine_ || allowed() == 8192u) << text;
  }
  write("/proc/self/cgroup", "0::/\n");
  for (const char* text : {"-", " - ", " - cgroup2", "1 2 3 - cgroup2 a b", "\n - \n"}) {
    write("/proc/self/mountinfo", text);
    EXPECT_EQ(allowed(), machine_) << text;
  }
}

TEST_F(ControlGroup, LinesOfAnyLengthAreSteppedOver) {
  write("/proc/self/cgroup", "7:" + std::string(10'000, 'x') + ":/\n0::/g\n");
  write("/proc/self/mountinfo",
        "1 1 0:1 / /" + std::string(9000, 'y') +
            " rw - overlay overlay rw\n31 24 0:26 / /cg rw - cgroup2 cgroup2 rw");
  write("/cg/g/memory.max", "12582912");
  EXPECT_EQ(allowed(), 12 * kMiB);
}

TEST_F(ControlGroup, TheSmallestStackIsEnough) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  const auto least = static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN));
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, least), 0);
  std::size_t allowed = 0;
  const auto ask = [](void* out) -> void* {
    *static_cast<std::size_t*>(out) = allowed_memory_bytes();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, ask, &allowed), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(allowed, allowed_memory_bytes());
}

TEST_F(ControlGroup, TheRealSystemHasAnAnswer) {
  EXPECT_GT(allowed_memory_bytes(), kMiB);
  EXPECT_LE(allowed_memory_bytes(), machine_);
}

}  // namespace
}  // namespace strata::os
