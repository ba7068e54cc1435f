#include "process/output_capture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "process/temporary_folder.h"

namespace strata::cli {
namespace {

std::string read_range(int fd, std::size_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  ssize_t got = ::pread(fd, text.data(), bytes, static_cast<off_t>(offset));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

OutputCapture::OutputCapture() {
  const SignalWatch held;  // blocks signals while the file has a name
  std::string path = temporary_name("strata-output");
  // O_APPEND, because the command's two streams share the file and must not overwrite each other.
  fd_ = ::mkostemp(path.data(), O_APPEND | O_CLOEXEC);
  if (fd_ < 0) refuse_temporary("file", path);
  ::unlink(path.c_str());
  // On a full disk the command would fail without being able to say why.
  if (::write(fd_, "", 1) != 1) {
    const int error = errno;
    ::close(fd_);
    throw std::system_error(error, std::generic_category(),
                            "cannot write a temporary file like " + path +
                                "; make room there, or set TMPDIR to another folder");
  }
  clear();
}

OutputCapture::~OutputCapture() { ::close(fd_); }

void OutputCapture::clear() {
  if (::ftruncate(fd_, 0) != 0) {
    throw std::system_error(errno, std::generic_category(), "the temporary output file");
  }
}

std::string OutputCapture::tail(std::size_t lines, std::size_t bytes) const {
  struct stat status {};
  ::fstat(fd_, &status);
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::size_t start = size > bytes ? size - bytes : 0;
  std::string text = read_range(fd_, start, size - start);
  text.erase(text.find_last_not_of('\n') + 1);
  const std::size_t cut = text.find('\n');  // ends a line of which only a part was read
  if (start > 0 && cut != std::string::npos) text.erase(0, cut + 1);
  std::size_t at = text.size();
  while (lines-- > 0 && at != std::string::npos && at > 0) at = text.rfind('\n', at - 1);
  if (at < text.size()) text.erase(0, at + 1);
  return text;
}

std::string OutputCapture::head(std::size_t bytes) const { return read_range(fd_, 0, bytes); }

}  // namespace strata::cli
