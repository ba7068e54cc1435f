#include "output/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "input/usage_error.h"
#include "output/text.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr int kMostLinks = 40;  ///< the kernel's limit

/// Terminals and /dev/null can be shared.
bool is_what_standard_output_is(const struct stat& status) {
  struct stat output {};
  return ::fstat(STDOUT_FILENO, &output) == 0 && !S_ISCHR(output.st_mode) &&
         output.st_dev == status.st_dev && output.st_ino == status.st_ino;
}

}  // namespace

fs::path behind_links(const std::string& name) {
  std::error_code ignored;  // e.g. the working folder was removed
  fs::path path = fs::absolute(name, ignored);
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, ignored); ++i) {
    path = path.parent_path() / fs::read_symlink(path, ignored);
  }
  std::error_code error;  // e.g. no permission to read the folder
  const fs::path folder = fs::weakly_canonical(path.parent_path(), error);
  return (error ? path.parent_path() : folder) / path.filename();
}

WholeFile::WholeFile(std::string_view option, const std::string& path,
                     const std::vector<std::string>& inputs)
    : path_(path), buffer_(kBufferBytes) {
  if (path.empty()) {
    throw UsageError(
        fmt::format("{} names no file; give a path, or - for standard output", option));
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  struct stat status {};
  const bool exists = path != "-" && ::stat(path.c_str(), &status) == 0;
  if (path == "-" || (exists && is_what_standard_output_is(status))) {
    fd_ = STDOUT_FILENO;
    return;
  }
  bool can_write = true;
  if (exists && !S_ISREG(status.st_mode)) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    can_write = fd_ >= 0;
  } else {
    target_ = behind_links(path);
    can_write = (!exists || ::access(path.c_str(), W_OK) == 0) && can_be_created();
  }
  if (!can_write) {
    throw UsageError(fmt::format("{} cannot write '{}': {}; give a path that you may write", option,
                                 path, ::strerror(errno)));
  }
  for (const std::string& input : inputs) {
    if (is_same_as(input)) {
      throw UsageError(fmt::format("{} '{}' is what is read; give another file", option, path));
    }
  }
}

WholeFile::~WholeFile() { discard(); }

bool WholeFile::is_standard_output() const noexcept { return fd_ == STDOUT_FILENO; }

bool WholeFile::is_same_as(const std::string& other) const {
  std::error_code ignored;
  return !target_.empty() &&
         (fs::equivalent(target_, other, ignored) || target_ == behind_links(other));
}

bool WholeFile::create() {
  struct stat earlier {};
  const bool exists = ::stat(target_.c_str(), &earlier) == 0;
  if (!target_.has_filename()) return errno = EISDIR, false;
  for (int i = 0; fd_ < 0; ++i) {
    beside_ = fmt::format("{}.{}.{}.new", target_.string(), ::getpid(), i);
    fd_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 exists ? earlier.st_mode & 0777 : 0666);
    if (fd_ < 0 && errno != EEXIST) return beside_.clear(), false;
  }
  if (!exists) return true;
  [[maybe_unused]] const int ignored = ::fchown(fd_, earlier.st_uid, earlier.st_gid);
  return ::fchmod(fd_, earlier.st_mode & 0777) == 0;
}

/// Creates the file and removes it. No signal ends the process in between.
bool WholeFile::can_be_created() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const bool is_created = create();
  const int error = errno;
  discard();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return is_created;
}

void WholeFile::discard() noexcept {
  if (fd_ >= 0 && !is_standard_output()) ::close(fd_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
  fd_ = -1;
  beside_.clear();
}

bool WholeFile::write(std::string_view text) {
  return sputn(text.data(), static_cast<std::streamsize>(text.size())) ==
         static_cast<std::streamsize>(text.size());
}

WholeFile::int_type WholeFile::overflow(int_type next) {
  flush();
  if (error_ != 0) return traits_type::eof();
  if (next != traits_type::eof()) sputc(traits_type::to_char_type(next));
  return traits_type::not_eof(next);
}

void WholeFile::flush() {
  if (before_each_write_ && !target_.empty()) before_each_write_();
  if (fd_ < 0 && error_ == 0 && !create()) error_ = errno;
  for (const char* at = pbase(); at < pptr() && error_ == 0;) {
    const ssize_t written = ::write(fd_, at, static_cast<std::size_t>(pptr() - at));
    if (written >= 0) {
      at += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

void WholeFile::commit() {
  flush();
  const auto check = [&](int result, const std::string& what) {
    if (result != 0 && error_ == 0) error_ = errno;
    if (error_ != 0) throw std::system_error(error_, std::generic_category(), what);
  };
  const std::string what = is_standard_output() ? "could not write to standard output"
                                                : fmt::format("could not write '{}'", path_);
  check(target_.empty() ? 0 : ::fsync(fd_), what);
  if (is_standard_output()) return;
  check(::close(std::exchange(fd_, -1)), what);
  if (target_.empty()) return;
  struct stat earlier {};
  has_replaced_ = ::stat(target_.c_str(), &earlier) == 0 && earlier.st_size > 0;
  // Keep the temporary file: its contents may have taken an hour.
  const std::string made = std::exchange(beside_, {});
  check(::rename(made.c_str(), target_.c_str()),
        fmt::format("could not put '{}' in the place of '{}'", made, path_));
}

std::string name_for_process(const std::string& name, const std::string& process) {
  return replaced(name, "%p", process);
}

void expect_writable(std::string_view option, const std::string& name) {
  if (name.empty()) throw UsageError(fmt::format("{} names no file; give a path", option));
  if (name == "-")
    throw UsageError(fmt::format("{} -: standard output is the command's; give a path", option));
  const std::string path = name_for_process(name, std::to_string(::getpid()));
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status)) {
    const WholeFile tried(option, path);
  }
}

}  // namespace strata::cli
