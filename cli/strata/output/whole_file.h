#pragma once

#include <filesystem>
#include <functional>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::cli {

/// An output file that is replaced atomically: it is written beside its place and renamed on
/// commit(). A symbolic link is preserved, and so are mode and owner. Pipes and devices are written
/// directly.
class WholeFile final : public std::streambuf {
 public:
  /// Checks at once whether the file can be created, so that an hour of measuring never ends in
  /// "permission denied". "-" means standard output, and so does any name of the file or pipe that
  /// standard output leads to.
  /// \param inputs  the input files, which must not be replaced
  /// \errors  UsageError, which names the option, the file and the reason.
  WholeFile(std::string_view option, const std::string& path,
            const std::vector<std::string>& inputs = {});
  ~WholeFile() override;  ///< removes what was not committed

  bool is_standard_output() const noexcept;
  /// Whether both names lead to the same file.
  bool is_same_as(const std::string& other) const;
  /// Whether commit() replaced an existing file.
  bool has_replaced() const noexcept { return has_replaced_; }
  const std::string& path() const noexcept { return path_; }

  /// Sets a function to call before each write beside the place of the file.
  void before_each_write(std::function<void()> call) { before_each_write_ = std::move(call); }
  /// \returns  False if the write failed; commit() reports why.
  bool write(std::string_view text);
  /// Moves what was written into its place.
  /// \errors  std::system_error, which names the file.
  void commit();
  /// Removes what was not committed.
  void discard() noexcept;

 private:
  int_type overflow(int_type next) override;
  bool create();
  bool can_be_created();
  void flush();

  std::string path_;
  std::filesystem::path target_;  ///< with links resolved; empty if not a regular file
  std::string beside_;            ///< the temporary file, until it is renamed
  int fd_ = -1;
  int error_ = 0;
  bool has_replaced_ = false;
  std::function<void()> before_each_write_;
  std::vector<char> buffer_;
};

/// Resolves links, even if the target does not exist.
std::filesystem::path behind_links(const std::string& name);

/// Replaces %p in a name by `process`.
std::string name_for_process(const std::string& name, const std::string& process);

/// Checks, as WholeFile does, whether the measured command can write this file; its name may
/// contain %p. Does not open pipes, because their readers would see the close.
/// \errors  Those of WholeFile, and UsageError for "" and "-".
void expect_writable(std::string_view option, const std::string& name);

}  // namespace strata::cli
