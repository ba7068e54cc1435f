#include "recorder/trace_file.h"

#include <cerrno>
#include <new>

#include "os/clock.h"
#include "os/errors.h"
#include "os/file.h"
#include "os/page_source.h"
#include "recorder/system.h"

namespace strata::recorder {
namespace {

constexpr unsigned kMostNames = 10'000;

bool replace_process(std::string_view pattern, std::uint64_t process, Text& out) noexcept {
  bool is_named = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%' && i + 1 < pattern.size() && pattern[i + 1] == 'p') {
      out.decimal(process);
      is_named = true;
      ++i;
    } else {
      out.add({&pattern[i], 1});
    }
  }
  return is_named;
}

}  // namespace

bool TraceFile::open(const Settings& settings, std::uint64_t process,
                     const char* allocator) noexcept {
  if (!create(settings.file, process)) return false;
  error_ = 0;
  ::new (writer_) trace::Writer(write, this);
  writer_->begin();
  describe_process(settings, process, allocator);
  if (!writer_->has_failed()) return true;
  give_up();
  return false;
}

/// Creates the file, or the first of FILE.PROCESS, FILE.PROCESS.2, … that does not exist.
bool TraceFile::create(const char* pattern, std::uint64_t process) noexcept {
  int result = 0;
  for (unsigned attempt = 0; attempt < kMostNames; ++attempt) {
    name_ = Text();
    const bool is_named = replace_process(pattern, process, name_);
    if (attempt > 0 && !is_named) name_.add(".").decimal(process);
    if (attempt > 1 || (attempt > 0 && is_named)) {
      name_.add(".").decimal(is_named ? attempt + 1 : attempt);
    }
    result = create_file(name_.c_string());
    if (result != -EEXIST) break;
  }
  file_ = result;
  if (is_open()) return true;
  Text sentence;
  sentence.add("strata record: the trace '").value(name_.view());
  sentence.add("' cannot be created: ").add(os::text_of_error(-result));
  say(sentence.add("; the program runs unrecorded\n").view());
  return false;
}

void TraceFile::describe_process(const Settings& settings, std::uint64_t process,
                                 const char* allocator) noexcept {
  Text text;
  char command[8192];
  std::size_t size = read_small_file("/proc/self/cmdline", command, sizeof command);
  while (size > 0 && command[size - 1] == '\0') --size;
  text.property("pid", process).property("parent", parent_number());
  text.property("command", {command, size});
  text.property("started_ns", os::wall_clock_ns()).property("page_bytes", os::page_bytes());
  if (settings.stack_frames == 0) {
    text.property("stacks", "off");
  } else {
    text.property("stacks", settings.stack_frames);
  }
  if (allocator != nullptr) text.property("allocator", allocator);
  writer_->add_text(trace::BlockKind::kProcess, text.view());
}

bool TraceFile::write(void* self, const void* bytes, std::size_t count) noexcept {
  auto& trace = *static_cast<TraceFile*>(self);
  trace.error_ = write_file(trace.file_, bytes, count);
  return trace.error_ == 0;
}

void TraceFile::end(std::string_view text) noexcept {
  if (writer_->end(text)) close();
}

void TraceFile::give_up() noexcept {
  Text sentence;
  sentence.add("strata record: the trace '").value(name_.view());
  sentence.add("' ends here, because it could not be written: ").add(os::text_of_error(error_));
  say_from_hidden_thread(sentence.add("; the program goes on\n").view());
  close();
}

void TraceFile::close() noexcept {
  os::close_file(file_);
  file_ = -1;
}

}  // namespace strata::recorder
