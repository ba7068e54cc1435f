#pragma once

#include <filesystem>
#include <functional>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::cli {

/// A file that a command makes: it is there whole, or what was there before is. It is written
/// beside its place and renamed; a link still leads to it then, and it keeps its mode and owner.
/// What is no regular file (a pipe, a device) is written as it comes.
class WholeFile final : public std::streambuf {
 public:
  /// Tries at once whether it can be made, so that an hour of measuring never ends in "permission
  /// denied". "-" is standard output, and so is a name of the file or pipe that it leads to.
  /// \param inputs  what is read, and must not be replaced
  /// \errors  UsageError naming the option, the file and the reason.
  WholeFile(std::string_view option, const std::string& path,
            const std::vector<std::string>& inputs = {});
  ~WholeFile() override;  ///< nothing is left of what was not committed

  bool is_standard_output() const noexcept;
  /// Whether both are one file, by whatever names.
  bool is_same_as(const std::string& other) const;
  /// Whether commit() replaced something.
  bool has_replaced() const noexcept { return has_replaced_; }
  const std::string& path() const noexcept { return path_; }

  /// Called each time before something is written beside the place of the file.
  void before_each_write(std::function<void()> call) { before_each_write_ = std::move(call); }
  /// \returns  False if it could not be written; commit() says why.
  bool write(std::string_view text);
  /// Puts what was written in its place.
  /// \errors  std::system_error naming the file.
  void commit();
  /// Leaves nothing of what was not committed.
  void discard() noexcept;

 private:
  int_type overflow(int_type next) override;
  bool create();
  void flush();

  std::string path_;
  std::filesystem::path target_;  ///< where the name leads; empty for what is no regular file
  std::string beside_;            ///< what is written until it is renamed
  int fd_ = -1;
  int error_ = 0;
  bool has_replaced_ = false;
  std::function<void()> before_each_write_;
  std::vector<char> buffer_;
};

/// Where a name leads, also if nothing is there yet.
std::filesystem::path behind_links(const std::string& name);

/// What a name with %p in it stands for where this process writes.
std::string name_for_process(const std::string& name, const std::string& process);

/// Tries whether other programs can write this file, whose name may hold %p, as WholeFile does for
/// its own. A pipe is not opened: its reader would see that it is closed.
/// \errors  UsageError as of WholeFile.
void expect_writable(std::string_view option, const std::string& name);

}  // namespace strata::cli
