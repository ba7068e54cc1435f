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

/// A file that is not a trace, or a damaged one: one sentence that names the file and the place.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file that was mapped as code.
struct Module {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< of `start` in the file
  std::string build_id;      ///< hexadecimal digits, or empty
  std::string path;

  friend bool operator==(const Module&, const Module&) = default;
};

struct Thread {
  std::uint32_t number = 0;  ///< as events have it
  std::uint64_t id = 0;      ///< the system's
  std::string name;

  friend bool operator==(const Thread&, const Thread&) = default;
};

using Properties = std::map<std::string, std::string, std::less<>>;
/// \returns  Empty if there is none of the name.
std::string property(const Properties& properties, std::string_view name);

/// Reads a trace from its beginning to its end, block by block: memory grows with the number of
/// objects (a bit each) and of different stacks, not with the number of events.
///
/// Whatever the file holds, the events that come out are as event.h says: threads are numbered
/// without gaps in the order of their first event, objects likewise, an object that ends was live,
/// a stack was defined, time never goes back.
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

  /// \returns  False at the end: then ending() and cut_at() say which.
  /// \errors   TraceError
  bool next(Event& event);

  // What was read so far.
  std::uint64_t events() const noexcept { return next_event_; }
  std::uint64_t objects() const noexcept { return next_object_; }
  std::uint32_t thread_count() const noexcept { return thread_count_; }
  std::uint64_t time_ns() const noexcept { return expected_.tick * tick_ns_; }
  std::uint64_t dropped_events() const noexcept { return dropped_events_; }
  std::uint64_t bytes() const noexcept { return position_; }
  /// By number; the first is the root.
  const std::vector<StackNode>& stacks() const noexcept { return stacks_; }
  const std::vector<Module>& modules() const noexcept { return modules_; }
  /// Which of modules() a stack's return address lay in when it was taken; kNoModule if in none.
  std::uint32_t module_of(std::uint32_t stack) const noexcept { return stack_modules_[stack]; }
  const std::vector<Thread>& threads() const noexcept { return threads_; }
  /// pid, command and the like (docs/trace-format.md).
  const Properties& process() const noexcept { return process_; }

  /// Why the recording ended; empty before the end, and where the recorder could not write it.
  const Properties& ending() const noexcept { return ending_; }
  /// True at the end of a trace that ends without saying so: its program was killed, or the file is
  /// not complete. What was read is right.
  bool is_cut() const noexcept { return is_at_end_ && ending_.empty(); }

  const std::string& name() const noexcept { return name_; }

 private:
  class Column {
   public:
    Column() = default;
    Column(const unsigned char* at, std::size_t count) : at_(at), end_(at + count) {}
    bool is_empty() const noexcept { return at_ == end_; }
    /// \returns  False if there is no whole number left.
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
  std::vector<std::uint64_t> live_;  // a bit for each object
  std::vector<StackNode> stacks_;
  std::vector<std::uint32_t> stack_modules_;
  std::vector<Module> modules_;
  std::uint32_t last_module_ = kNoModule;
  std::vector<Thread> threads_;
  Properties process_;
  Properties ending_;
};

}  // namespace strata::trace
