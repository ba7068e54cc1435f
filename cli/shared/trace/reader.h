#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "shared/trace/event.h"
#include "shared/trace/layout.h"

struct ZSTD_DCtx_s;

namespace strata::trace {

/// Not a trace, or a damaged one. The message is one sentence that names the file and the position.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file mapped as code.
struct Module {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< file offset of `start`
  std::string build_id;      ///< hexadecimal digits, or empty
  std::string path;          ///< as /proc/PID/maps writes it: with \012 for a newline

  friend bool operator==(const Module&, const Module&) = default;
};

struct Thread {
  std::uint32_t number = 0;  ///< as in Event
  std::uint64_t id = 0;      ///< the system's thread ID
  std::string name;

  friend bool operator==(const Thread&, const Thread&) = default;
};

using Properties = std::map<std::string, std::string, std::less<>>;
/// \returns  The property's value; empty if it is missing.
std::string property(const Properties& properties, std::string_view name);

/// Reads a trace from beginning to end, block by block. Memory grows with the number of objects
/// (one bit each) and distinct stacks, not with the number of events.
///
/// The reader validates its input: whatever the file holds, the events satisfy event.h. Threads and
/// objects are numbered without gaps in order of appearance, an object that ends was live, stacks
/// are defined before use, and time never decreases.
/// \threads  One at a time.
/// \cost     Some 20 ns an event.
class Reader {
 public:
  static constexpr std::uint32_t kNoModule = ~std::uint32_t{0};

  /// \errors  TraceError
  explicit Reader(const std::string& path);
  Reader(std::string name, std::unique_ptr<std::istream> bytes);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// \returns  False at the end; ending() and is_cut() then say why.
  /// \errors   TraceError
  bool next(Event& event);

  // What has been read so far.
  std::uint64_t events() const noexcept { return next_event_; }
  std::uint64_t objects() const noexcept { return next_object_; }
  std::uint32_t thread_count() const noexcept { return thread_count_; }
  std::uint64_t time_ns() const noexcept { return expected_.tick * tick_ns_; }
  std::uint64_t dropped_events() const noexcept { return dropped_events_; }
  std::uint64_t bytes() const noexcept { return position_; }
  /// Indexed by number; the first is the root.
  const std::vector<StackNode>& stacks() const noexcept { return stacks_; }
  const std::vector<Module>& modules() const noexcept { return modules_; }
  /// The index in modules() of the module that held the return address when the stack was taken, or
  /// kNoModule.
  std::uint32_t module_of(std::uint32_t stack) const noexcept { return stack_modules_[stack]; }
  const std::vector<Thread>& threads() const noexcept { return threads_; }
  /// pid, command and the like (docs/trace-format.md).
  const Properties& process() const noexcept { return process_; }

  /// Why the recording ended. Empty before the end, or if the recorder could not write it.
  const Properties& ending() const noexcept { return ending_; }
  /// True at the end of a trace without an ending: its program was killed, or the file is
  /// incomplete. The events read are valid.
  bool is_cut() const noexcept { return is_at_end_ && ending_.empty(); }

  const std::string& name() const noexcept { return name_; }

 private:
  class Column {
   public:
    Column() = default;
    Column(const unsigned char* at, std::size_t count) : at_(at), end_(at + count) {}
    bool is_empty() const noexcept { return at_ == end_; }
    /// \returns  False if no complete number is left.
    bool take(std::uint64_t& number) noexcept;
    bool take_byte(unsigned char& byte) noexcept;

   private:
    const unsigned char* at_ = nullptr;
    const unsigned char* end_ = nullptr;
  };

  void read_file_header();
  bool read_block();
  bool read_exactly(void* bytes, std::size_t count);
  void unpack(std::string_view body, unsigned column_count);
  void read_text(BlockKind kind);
  void read_stacks();
  void begin_events();
  void take_event(Event& event);
  void take_time(unsigned tag, Event& event);
  void take_end(Event& event);
  void take_beginning(unsigned tag, Event& event);
  bool is_live(std::uint64_t object) const noexcept;
  std::uint64_t number_of(unsigned column);
  std::uint32_t find_module(std::uint64_t address);
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_;
  std::unique_ptr<std::istream> in_;
  std::unique_ptr<ZSTD_DCtx_s, std::size_t (*)(ZSTD_DCtx_s*)> decompressor_;
  std::uint64_t position_ = 0;
  std::uint64_t block_position_ = 0;
  std::uint64_t tick_ns_ = 1;
  bool is_at_end_ = false;

  BlockHeader block_{};
  std::uint32_t events_left_ = 0;
  std::string body_;
  std::vector<unsigned char> raw_[kEventColumns];
  Column columns_[kEventColumns];
  Expectation expected_;

  std::uint64_t next_event_ = 0;
  std::uint64_t next_object_ = 0;
  std::uint32_t thread_count_ = 0;
  std::uint64_t dropped_events_ = 0;
  std::vector<std::uint64_t> live_;  // one bit per object
  std::vector<StackNode> stacks_;
  std::vector<std::uint32_t> stack_modules_;
  std::vector<Module> modules_;
  std::uint32_t last_module_ = kNoModule;
  std::vector<Thread> threads_;
  Properties process_;
  Properties ending_;
};

}  // namespace strata::trace
