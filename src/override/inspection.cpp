// The C library's functions to inspect and tune its malloc, answered by this one; Strata's own
// statistics; and the options as a program can read them.

#include <strata/malloc.h>

#include <algorithm>
#include <climits>
#include <cstdio>

#include "base/json_writer.h"
#include "malloc/options.h"
#include "malloc/process.h"
#include "malloc/statistics.h"
#include "os/environment.h"
#include "os/errors.h"

namespace {

/// A stream of the C library, for malloc_info: the malloc serves what the stream allocates.
class StreamSink final : public strata::TextSink {
 public:
  explicit StreamSink(std::FILE* stream) noexcept : stream_(stream) {}
  void write(std::string_view text) noexcept override {
    has_failed_ |= std::fwrite(text.data(), 1, text.size(), stream_) != text.size();
  }
  bool has_failed() const noexcept { return has_failed_; }

 private:
  std::FILE* stream_;
  bool has_failed_ = false;
};

/// glibc's struct mallinfo2, under another name, since <malloc.h> is a system header. As there,
/// huge blocks stand apart: arena == uordblks + fordblks, and the program has uordblks + hblkhd.
template <typename T>
struct Mallinfo {
  T arena;     // bytes mapped, without huge blocks and bookkeeping
  T ordblks;   // free objects
  T smblks;    // unused
  T hblks;     // huge blocks
  T hblkhd;    // bytes in them
  T usmblks;   // the most that was held
  T fsmblks;   // bytes in caches
  T uordblks;  // bytes live, without huge blocks
  T fordblks;  // bytes free, with memory or without
  T keepcost;  // bytes that malloc_trim could return
};

Mallinfo<std::size_t> collect_mallinfo() noexcept {
  const strata::Statistics now = strata::collect_statistics(strata::g_malloc);
  Mallinfo<std::size_t> info{};
  for (const auto& entry : now.classes) info.ordblks += entry.free_objects + entry.cached_objects;
  info.hblks = now.huge_blocks;
  info.hblkhd = now.huge_live;
  info.arena = now.mapped - now.huge_live - now.metadata;
  info.usmblks = now.limit.peak;
  info.fsmblks = now.cached;
  info.uordblks = now.live - now.huge_live;
  info.fordblks = info.arena - info.uordblks;
  info.keepcost = now.cached + now.free();
  return info;
}

void write_element(strata::TextSink& sink, std::string_view name, std::string_view type,
                   std::size_t size) noexcept {
  strata::TextWriter line;
  line.text("<").text(name).text(" type=\"").text(type).text("\" size=\"").decimal(size);
  sink.write(line.text("\"/>\n").view());
}

void write_total(strata::TextSink& sink, std::string_view type, std::size_t count,
                 std::size_t size) noexcept {
  strata::TextWriter line;
  line.text("<total type=\"").text(type).text("\" count=\"").decimal(count).text("\" size=\"");
  sink.write(line.decimal(size).text("\"/>\n").view());
}

/// Writes the totals that are in each heap and, once more, below all of them: "fast" is what the
/// caches hold, "rest" what else is free.
void write_totals(const strata::Statistics& now, bool is_sum, strata::TextSink& sink) noexcept {
  std::size_t cached = 0;
  std::size_t free = 0;
  for (const auto& entry : now.classes) {
    cached += entry.cached_objects;
    free += entry.free_objects;
  }
  write_total(sink, "fast", cached, now.cached);
  write_total(sink, "rest", free, now.free());
  if (is_sum) write_total(sink, "mmap", now.huge_blocks, now.huge_live);
  write_element(sink, "system", "current", now.limit.held);
  write_element(sink, "system", "max", now.limit.peak);
  write_element(sink, "aspace", "total", now.mapped);
  write_element(sink, "aspace", "mprotect", now.mapped);
}

/// Writes glibc's malloc_info document for one heap: its readers are programs.
void write_malloc_info(const strata::Statistics& now, strata::TextSink& sink) noexcept {
  sink.write("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
  std::size_t from = 1;
  for (unsigned c = 1; c < strata::SizeClassMap::kCount; ++c) {
    const std::size_t bytes = strata::SizeClassMap::bytes_of(c);
    const std::size_t count = now.classes[c].free_objects + now.classes[c].cached_objects;
    if (count != 0) {
      strata::TextWriter line;
      line.text("  <size from=\"").decimal(from).text("\" to=\"").decimal(bytes);
      line.text("\" total=\"").decimal(count * bytes).text("\" count=\"").decimal(count);
      sink.write(line.text("\"/>\n").view());
    }
    from = bytes + 1;
  }
  sink.write("</sizes>\n");
  write_totals(now, false, sink);
  sink.write("</heap>\n");
  write_totals(now, true, sink);
  sink.write("</malloc>\n");
}

/// Writes one option as the environment has it now.
void write_option(const strata::OptionRow& row, strata::JsonWriter& json) noexcept {
  strata::TextWriter name;
  strata::TextWriter range;
  strata::TextWriter value;
  strata::write_range(row, range);
  strata::write_value(row, strata::Options{}, value);
  json.begin_object().text("name", name.text(strata::kOptionPrefix).text(row.name).view());
  json.text("accepts", range.view()).text("default", value.view());
  strata::Options options;
  const char* text = strata::option_in_environment(row);
  const bool is_valid = text == nullptr || strata::set_option(row, text, options);
  value.clear();
  strata::write_value(row, options, value);
  // A path may be longer than a writer's line.
  const bool is_text = text != nullptr && is_valid && row.unit == strata::OptionRow::Unit::kText;
  json.text("value", is_text ? text : value.view());
  json.text("state", text == nullptr ? "default" : is_valid ? "set" : "invalid");
  if (text != nullptr) json.text("text", text);
  json.text("sentence", row.sentence).end_object();
}

/// Writes what the environment has that is named like an option and is none.
void write_mistaken_names(strata::JsonWriter& json) noexcept {
  for (std::size_t i = 0; const char* entry = strata::os::environment_entry(i); ++i) {
    const std::string_view name = strata::mistaken_name_in(entry);
    if (name.empty()) continue;
    json.begin_object().text("name", name);
    for (const char* key : {"accepts", "default", "value"}) json.text(key, "");
    json.text("state", "unknown").text("text", entry + name.size() + 1);
    json.text("sentence", "").end_object();
  }
}

}  // namespace

extern "C" {

void strata_stats_print() noexcept { strata::print_statistics(strata::g_malloc); }

std::size_t strata_stats_json(char* buffer, std::size_t size) noexcept {
  const strata::Statistics now = strata::collect_statistics(strata::g_malloc);
  strata::BufferSink sink(buffer, size);
  strata::write_statistics_json(now, sink);
  return sink.length();
}

std::size_t strata_options_json(char* buffer, std::size_t size) noexcept {
  strata::BufferSink sink(buffer, size);
  strata::JsonWriter json(sink);
  json.begin_array();
  for (const strata::OptionRow row : strata::option_table()) write_option(row, json);
  write_mistaken_names(json);
  json.end_array();
  return sink.length();
}

int strata_release_memory() noexcept { return strata::release_memory() ? 1 : 0; }

/// glibc's `pad`, bytes to keep at the heap's end, is ignored: this heap has no end.
STRATA_API int malloc_trim(std::size_t) noexcept { return strata::release_memory() ? 1 : 0; }

STRATA_API Mallinfo<std::size_t> mallinfo2() noexcept { return collect_mallinfo(); }

static_assert(sizeof(Mallinfo<int>) == 10 * sizeof(int), "the C library's has ten figures");

/// Figures beyond an int's range are the largest int; glibc's wrap around.
STRATA_API Mallinfo<int> mallinfo() noexcept {
  const Mallinfo<std::size_t> from = collect_mallinfo();
  const auto cut = [](std::size_t value) {
    return static_cast<int>(std::min<std::size_t>(value, INT_MAX));
  };
  return {cut(from.arena),    cut(from.ordblks), cut(from.smblks),  cut(from.hblks),
          cut(from.hblkhd),   cut(from.usmblks), cut(from.fsmblks), cut(from.uordblks),
          cut(from.fordblks), cut(from.keepcost)};
}

STRATA_API int malloc_info(int options, std::FILE* stream) noexcept {
  if (options != 0) return strata::os::error_invalid();
  const strata::Statistics now = strata::collect_statistics(strata::g_malloc);
  StreamSink sink(stream);
  write_malloc_info(now, sink);
  return sink.has_failed() ? -1 : 0;
}

/// Writes to standard error, like glibc's, even if STRATA_STATS_FILE is set.
STRATA_API void malloc_stats() noexcept {
  const strata::Statistics now = strata::collect_statistics(strata::g_malloc);
  strata::FileSink sink("");
  strata::write_statistics(now, sink);
}

/// Accepts all parameters and changes nothing, since nothing that glibc's parameters tune exists
/// here. Even those that glibc does not know, for which it reports success as well.
STRATA_API int mallopt(int, int) noexcept { return 1; }

}  // extern "C"
