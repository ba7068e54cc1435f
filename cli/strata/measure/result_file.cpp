#include "measure/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "input/usage_error.h"

namespace strata::cli {

ResultFile::ResultFile(std::string_view option, const std::string& path) : path_(path) {
  if (path.empty()) {
    throw UsageError(
        fmt::format("{} names no file; give a path, or - for standard output", option));
  }
  if (is_standard_output()) {
    fd_ = STDOUT_FILENO;
    return;
  }
  is_new_ = ::access(path.c_str(), F_OK) != 0;
  // Not truncated yet: an earlier result survives until there is a new one.
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw UsageError(fmt::format("{} cannot write '{}': {}; give a path that you may write", option,
                                 path, ::strerror(errno)));
  }
}

ResultFile::~ResultFile() {
  if (fd_ < 0 || is_standard_output()) return;
  ::close(fd_);
  if (is_new_) ::unlink(path_.c_str());
}

bool ResultFile::is_same_as(const ResultFile& other) const {
  if (is_standard_output() || other.is_standard_output()) return path_ == other.path_;
  struct stat mine {};
  struct stat its {};
  // A device takes whatever it is given.
  return ::fstat(fd_, &mine) == 0 && ::fstat(other.fd_, &its) == 0 && S_ISREG(mine.st_mode) &&
         mine.st_dev == its.st_dev && mine.st_ino == its.st_ino;
}

void ResultFile::write(std::string_view text) {
  is_new_ = false;
  struct stat earlier {};
  has_replaced_ = !is_standard_output() && ::fstat(fd_, &earlier) == 0 &&
                  S_ISREG(earlier.st_mode) && earlier.st_size > 0;
  if (!is_standard_output()) {
    // Fails for a pipe or a device, which have nothing to cut off.
    [[maybe_unused]] int ignored = ::ftruncate(fd_, 0);
  }
  while (!text.empty()) {
    ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw std::system_error(errno, std::generic_category(),
                              fmt::format("could not write '{}'", path_));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

ResultOutputs::ResultOutputs(const std::optional<std::string>& json_path,
                             const std::optional<std::string>& csv_path) {
  if (json_path) json_ = std::make_unique<ResultFile>("--json", *json_path);
  if (csv_path) csv_ = std::make_unique<ResultFile>("--csv", *csv_path);
  if (json_ && csv_ && json_->is_same_as(*csv_)) {
    throw UsageError(fmt::format(
        "--json and --csv cannot both be {}; give one of them another file",
        json_->is_standard_output() ? "standard output" : fmt::format("'{}'", *json_path)));
  }
}

void ResultOutputs::tell_replaced() const {
  for (const ResultFile* file : {json_.get(), csv_.get()}) {
    if (file == nullptr || !file->has_replaced()) continue;
    fmt::print(stderr, "strata: '{}' replaces the results that were in it\n", file->path());
  }
}

void ResultOutputs::publish(const Results& results, const std::function<void(std::FILE*)>& show) {
  std::exception_ptr first;
  auto attempt = [&](auto action) {
    try {
      action();
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  };
  bool takes_stdout = false;
  for (bool is_last : {false, true}) {  // standard output may be a pipe that was closed
    for (ResultFile* file : {json_.get(), csv_.get()}) {
      if (file == nullptr || file->is_standard_output() != is_last) continue;
      takes_stdout |= is_last;
      attempt([&] { file->write(file == json_.get() ? results.to_json() : results.to_csv()); });
    }
  }
  attempt([&] { show(takes_stdout ? stderr : stdout); });
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace strata::cli
