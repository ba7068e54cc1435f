// What the library reads under /proc and /sys, and the notes of ELF files, with any contents.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "input_file.h"
#include "os/control_group.h"
#include "os/file.h"

namespace {

using namespace strata;
using fuzz::require;

/// The root of a file system in memory, for os::allowed_memory_bytes().
class Root {
 public:
  Root() {
    require(::mkdtemp(path_) != nullptr, "a folder can be made");
    for (const char* folder : {"/proc", "/proc/self", "/g", "/g/a"})
      require(::mkdir((path_ + std::string(folder)).c_str(), 0700) == 0, "and others in it");
  }
  ~Root() {
    for (const char* file : kFiles) ::unlink((path_ + std::string(file)).c_str());
    for (const char* folder : {"/g/a", "/g", "/proc/self", "/proc", ""})
      ::rmdir((path_ + std::string(folder)).c_str());
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  static constexpr const char* kFiles[] = {"/proc/self/cgroup", "/proc/self/mountinfo",
                                           "/g/memory.max",     "/g/memory.limit_in_bytes",
                                           "/g/a/memory.max",   "/g/a/memory.limit_in_bytes",
                                           "/g/memory.stat"};

  void write(const char* file, std::string_view text) {
    std::FILE* const out = std::fopen((path_ + std::string(file)).c_str(), "w");
    require(out != nullptr, "a file can be made");
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
  }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/dev/shm/strata-fuzz-XXXXXX";
};

void read_maps(std::string_view text) {
  const fuzz::InputFile file(text);
  os::LineReader lines(file.path().c_str());
  std::size_t read = 0;
  for (std::string_view line; lines.next(line);) {
    read += line.size();
    os::CodeMapping mapping{};
    if (!os::parse_code_mapping(line, mapping)) continue;
    require(mapping.path.front() == '/', "code lies in a file");
    require(mapping.path.data() + mapping.path.size() <= line.data() + line.size(),
            "a path is part of its line");
  }
  require(read <= text.size() && !lines.has_failed(), "lines are the file's");
}

void read_elf(std::string_view text) {
  const fuzz::InputFile file(text);
  char id[41];
  std::memset(id, '?', sizeof id);
  const std::size_t digits = os::read_build_id(file.path().c_str(), id, sizeof id - 1);
  require(digits < sizeof id && id[sizeof id - 1] == '?', "a build id fits where it is written");
  for (std::size_t i = 0; i < digits; ++i)
    require(std::strchr("0123456789abcdef", id[i]) != nullptr, "a build id is hexadecimal");
}

}  // namespace

STRATA_FUZZ(choices) {
  switch (choices.below(3)) {
    case 0:
      return read_maps(choices.rest());
    case 1:
      return read_elf(choices.rest());
    default:
      break;
  }
  Root root;
  for (const char* file : Root::kFiles) {
    const std::string_view text = choices.text(choices.below(1000));
    if (!text.empty()) root.write(file, text);
  }
  const std::size_t machine = os::allowed_memory_bytes("/nowhere");
  require(os::allowed_memory_bytes(root.path()) <= machine, "groups only take away");
}
