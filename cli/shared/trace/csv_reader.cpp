#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <istream>
#include <system_error>
#include <unordered_map>

#include "shared/trace/csv.h"
#include "shared/trace/file_kind.h"
#include "shared/words.h"

namespace strata::trace {
namespace {

enum Field : unsigned {
  kOperation,
  kTime,
  kThread,
  kObject,
  kSize,
  kAlignment,
  kStack,
  kEnded,
  kFields,
};
constexpr std::array<std::string_view, kFields> kFieldNames = {
    "operation", "time_ns", "thread", "object", "size_bytes", "alignment", "stack", "ended"};
constexpr const char* kFirstLine =
    "the first line names the columns, as in: "
    "operation,time_ns,thread,object,size_bytes,alignment,stack,ended";
constexpr std::size_t kAbsent = ~std::size_t{0};

class CsvReader {
 public:
  CsvReader(std::string name, std::istream& in, Writer& out)
      : name_(std::move(name)), in_(in), out_(out) {}

  void read(const std::function<void(const std::string& column)>& when_ignored) {
    if (!next_line()) {
      throw TraceError(fmt::format("'{}' is empty; {}", name_, kFirstLine));
    }
    read_columns(when_ignored);
    while (next_line()) {
      if (words_.size() == 1 && words_[0].empty()) continue;
      if (words_[0].starts_with('#')) {
        read_definition();
      } else {
        read_event();
      }
      if (out_.has_failed()) return;
    }
    if (!threads_text_.empty()) out_.add_text(BlockKind::kThreads, threads_text_);
    out_.end(end_text_.empty() ? "reason=converted\n" : end_text_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    if (line_number_ == 1) refuse_other_kinds();
    throw TraceError(fmt::format("line {} of '{}': {}", line_number_, name_, what));
  }

  /// \errors  TraceError if the file is of a known kind other than CSV. Reads another line, because
  ///          the first of JSON may be short.
  void refuse_other_kinds() const {
    std::string second_line;
    std::getline(in_, second_line);
    const FileKind kind = file_kind_of(line_ + '\n' + second_line);
    const std::string_view sentence = describe_file(kind, "");
    if (kind == FileKind::kCalls || sentence.empty()) return;
    throw TraceError(fmt::format("'{}' is neither a trace nor CSV: {}", name_, sentence));
  }

  /// Splits the next line at commas; fields that contain commas are quoted.
  bool next_line() {
    if (!std::getline(in_, line_)) {
      if (!in_.bad()) return false;
      throw TraceError(fmt::format("'{}' cannot be read beyond line {}: {}", name_, line_number_,
                                   std::generic_category().message(errno)));
    }
    ++line_number_;
    std::string_view line = line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_number_ == 1 && line.starts_with(kByteOrderMark)) {
      line.remove_prefix(kByteOrderMark.size());
    }
    words_.assign(1, "");
    bool is_quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"') {
        const bool is_doubled = is_quoted && i + 1 < line.size() && line[i + 1] == '"';
        if (is_doubled) words_.back() += line[i++];
        if (!is_doubled) is_quoted = !is_quoted;
      } else if (line[i] == ',' && !is_quoted) {
        words_.emplace_back();
      } else {
        words_.back() += line[i];
      }
    }
    if (is_quoted) fail("a quote is not closed");
    return true;
  }

  void read_columns(const std::function<void(const std::string& column)>& when_ignored) {
    if (std::ranges::find(words_, kFieldNames[kOperation]) == words_.end()) {
      fail(fmt::format("no column is named 'operation'; {}", kFirstLine));
    }
    columns_.fill(kAbsent);
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto* name = std::ranges::find(kFieldNames, words_[i]);
      if (name == kFieldNames.end()) {
        when_ignored(words_[i]);
      } else {
        columns_[static_cast<std::size_t>(name - kFieldNames.begin())] = i;
      }
    }
  }

  std::string_view word(std::size_t index) const {
    return index < words_.size() ? std::string_view(words_[index]) : std::string_view();
  }
  std::string_view field(Field which) const { return word(columns_[which]); }

  std::uint64_t number(std::string_view text, std::string_view what) const {
    if (text.empty()) return 0;
    const bool is_hex = text.starts_with("0x");
    const auto value =
        parse_number<std::uint64_t>(is_hex ? text.substr(2) : text, is_hex ? 16 : 10);
    if (!value) fail(fmt::format("'{}' is no number of '{}'", text, what));
    return *value;
  }

  void refuse_beyond_a_block(const std::string& text) const {
    if (text.size() > kColumnBytes) fail("it is too long");
  }

  void write_line(BlockKind kind, const std::string& line) {
    refuse_beyond_a_block(line);
    out_.add_text(kind, line);
  }

  void read_definition() {
    const std::string_view kind = word(0);
    if (kind == "#process" || kind == "#end") {
      if (word(1).empty() || word(1).find('=') != std::string_view::npos) {
        fail("a property has no name");
      }
      const std::string text = fmt::format("{}={}\n", word(1), word(2));
      if (kind == "#end") {
        end_text_ += text;
        refuse_beyond_a_block(end_text_);
      } else {
        write_line(BlockKind::kProcess, text);
      }
    } else if (kind == "#thread") {
      name_thread();
    } else if (kind == "#module") {
      write_module();
    } else if (kind == "#stack") {
      add_stack();
    } else if (kind == "#dropped") {
      out_.add_dropped(number(word(1), "dropped"));
    }  // any other line is a comment
  }

  void name_thread() {
    const std::string label(word(1));
    const std::string text = fmt::format("{} {}\n", number(word(2), "thread"), word(3));
    refuse_beyond_a_block(text);
    const auto known = threads_.find(label);
    if (known != threads_.end()) {
      threads_text_ += fmt::format("{} {}", known->second, text);
    } else {
      thread_names_[label] = text;
    }
  }

  void write_module() {
    const auto part = [&](std::size_t index) { return number(word(index), "module"); };
    write_line(BlockKind::kModules, fmt::format("{:x} {:x} {:x} {} {}\n", part(1), part(2), part(3),
                                                word(4).empty() ? "-" : word(4), word(5)));
  }

  void add_stack() {
    const std::uint64_t parent = number(word(2), "stack");
    if (stacks_.empty()) stacks_.emplace(0, 0);
    const auto found = stacks_.find(parent);
    if (found == stacks_.end()) fail("the stack's caller is not defined");
    const std::uint32_t defined = out_.add_stack({found->second, number(word(3), "stack")});
    if (!stacks_.emplace(number(word(1), "stack"), defined).second) {
      fail("the stack is defined already");
    }
  }

  void read_event() {
    Event event;
    const auto* const name = std::ranges::find(kOperationNames, field(kOperation));
    if (name == kOperationNames.end()) {
      fail(fmt::format("'{}' is no operation; there are {}", field(kOperation),
                       fmt::join(kOperationNames, ", ")));
    }
    event.operation = static_cast<Operation>(name - kOperationNames.begin());
    read_time();
    event.time_ns = time_ns_;
    event.thread = thread();
    if (begins_object(event.operation)) read_beginning(event);
    // A realloc that fails ends no object.
    const bool has_failed = begins_object(event.operation) && event.object == kNoObject;
    if (ends_object(event.operation) && !has_failed) event.ended = end_object(event.operation);
    if (event.object != kNoObject) begin_object(event);
    out_.add(event);
  }

  void read_time() {
    if (field(kTime).empty()) return;
    const std::uint64_t time_ns = number(field(kTime), "time_ns");
    if (time_ns > kMostNanoseconds) fail("the time is later than a trace can be, 2^62 ns");
    if (time_ns < time_ns_) {
      fail("the time is before that of a line above; sort the lines by time_ns");
    }
    time_ns_ = time_ns;
  }

  /// Numbers threads in order of appearance and writes their names at that time.
  std::uint32_t thread() {
    const std::string name(field(kThread));
    const auto [at, is_new] =
        threads_.try_emplace(name, static_cast<std::uint32_t>(threads_.size()));
    if (is_new && at->second >= kMostThreads) fail("there are too many threads");
    const auto named = thread_names_.find(name);
    if (is_new && named != thread_names_.end()) {
      threads_text_ += fmt::format("{} {}", at->second, named->second);
    }
    return at->second;
  }

  void read_beginning(Event& event) {
    event.size_bytes = number(field(kSize), "size_bytes");
    event.alignment = number(field(kAlignment), "alignment");
    if ((event.alignment & (event.alignment - 1)) != 0) fail("the alignment is no power of two");
    const std::uint64_t stack = number(field(kStack), "stack");
    const auto found = stacks_.find(stack);
    if (stack != 0 && found == stacks_.end()) fail("the stack is not defined");
    event.stack = stack == 0 ? 0 : found->second;
    if (!field(kObject).empty()) event.object = out_.next_object();
  }

  std::uint64_t end_object(Operation operation) {
    // Tools with a single object column put a free's object there.
    std::string name(field(kEnded));
    if (name.empty() && operation != Operation::kRealloc) name = field(kObject);
    if (name.empty()) {
      if (operation == Operation::kRealloc) return kNoObject;
      fail("it does not say which object ends");
    }
    const auto found = live_.find(name);
    if (found == live_.end()) return kUnknownObject;
    const std::uint64_t object = found->second;
    live_.erase(found);
    return object;
  }

  /// If the name is still in use, its previous object ended unrecorded.
  void begin_object(const Event& event) {
    const auto [at, is_new] = live_.try_emplace(std::string(field(kObject)), event.object);
    if (is_new) return;
    out_.add({.operation = Operation::kLost,
              .thread = event.thread,
              .time_ns = event.time_ns,
              .ended = at->second});
    at->second = event.object;
  }

  const std::string name_;
  std::istream& in_;
  Writer& out_;
  std::string line_;
  std::size_t line_number_ = 0;
  std::vector<std::string> words_;
  std::array<std::size_t, kFields> columns_{};
  std::uint64_t time_ns_ = 0;
  std::unordered_map<std::string, std::uint32_t> threads_;
  std::unordered_map<std::string, std::string> thread_names_;
  std::unordered_map<std::string, std::uint64_t> live_;
  std::unordered_map<std::uint64_t, std::uint32_t> stacks_;
  std::string threads_text_;
  std::string end_text_;
};

}  // namespace

void read_csv(const std::string& name, std::istream& in, Writer& out,
              const std::function<void(const std::string& column)>& when_ignored) {
  CsvReader(name, in, out).read(when_ignored);
}

}  // namespace strata::trace
