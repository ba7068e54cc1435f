#include "malloc/options.h"

#include "base/text_writer.h"
#include "os/process.h"

namespace strata {
namespace {

constexpr std::string_view kPrefix = "STRATA_";

template <auto kField>
constexpr std::size_t get_field(const Options& options) {
  return static_cast<std::size_t>(options.*kField);
}

template <typename T, T Options::*kField>
constexpr void set_field(Options& options, std::size_t value) {
  options.*kField = static_cast<T>(value);
}

constexpr OptionRow kTable[] = {
    {"CHECKS", OptionRow::Unit::kChoice, "basic|full", 0, 0,
     "basic: what costs nothing. full: every free is verified against the span's bitmap at once, "
     "at the price of the thread cache.",
     get_field<&Options::checks>, set_field<Options::Checks, &Options::checks>},
    {"STATS", OptionRow::Unit::kChoice, "off|exit", 0, 0,
     "exit: print statistics to standard error at normal exit.", get_field<&Options::stats>,
     set_field<Options::Stats, &Options::stats>},
    {"HUGE_PAGES", OptionRow::Unit::kChoice, "never|auto|always", 0, 0,
     "When 2 MiB regions ask for huge pages; auto: once the heap is so large that a region more "
     "does not show.",
     get_field<&Options::huge_pages>, set_field<HugePages, &Options::huge_pages>},
    {"CACHE_BYTES", OptionRow::Unit::kBytes, "", 0, std::size_t{1} << 40,
     "What all thread caches together may hold; each thread holds at most its share.",
     get_field<&Options::cache_bytes>, set_field<std::size_t, &Options::cache_bytes>},
    {"RELEASE_DELAY_MS", OptionRow::Unit::kMilliseconds, "", 0, 3'600'000,
     "Memory that was not needed for so long goes back to the kernel; 0: never without "
     "malloc_trim.",
     get_field<&Options::release_delay_ms>, set_field<std::size_t, &Options::release_delay_ms>},
};

/// The position of `text` among "a|b|c", or the number of words if it is none of them.
std::size_t find_choice(std::string_view choices, std::string_view text) noexcept {
  std::size_t index = 0;
  for (;; ++index) {
    const std::size_t end = choices.find('|');
    if (choices.substr(0, end) == text) return index;
    if (end == std::string_view::npos) return index + 1;
    choices.remove_prefix(end + 1);
  }
}

std::size_t count_choices(std::string_view choices) noexcept {
  std::size_t count = 1;
  for (char c : choices) count += c == '|';
  return count;
}

/// Reads a whole number, for bytes with an optional k, m or g (powers of 1024). False on anything
/// else.
bool parse_number(std::string_view text, bool is_bytes, std::size_t& value) noexcept {
  unsigned shift = 0;
  if (is_bytes && !text.empty()) {
    switch (text.back() | 0x20) {
      case 'k':
        shift = 10;
        break;
      case 'm':
        shift = 20;
        break;
      case 'g':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift != 0) text.remove_suffix(1);
  }
  if (text.empty()) return false;
  std::size_t number = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(number, std::size_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<std::size_t>(c - '0'), &number)) return false;
  }
  return !__builtin_mul_overflow(number, std::size_t{1} << shift, &value);
}

void warn_of_value(const OptionRow& row, std::string_view text) noexcept {
  TextWriter line;
  line.text("strata: warning: STRATA_")
      .text(row.name)
      .text("=")
      .text(text.substr(0, 64))
      .text(" is not understood; ");
  if (row.unit == OptionRow::Unit::kChoice) {
    line.text("it is one of ").text(row.choices);
  } else {
    line.text("it is a number from ").decimal(row.least).text(" to ").decimal(row.most);
    line.text(row.unit == OptionRow::Unit::kBytes ? " bytes, k, m and g understood"
                                                  : " milliseconds");
  }
  line.text("; the default is used\n");
  os::write_stderr(line.view());
}

void warn_of_name(std::string_view name) noexcept {
  TextWriter line;
  line.text("strata: warning: ").text(name.substr(0, 64)).text(" is no option; the options are");
  for (const OptionRow& row : kTable) line.text(" ").text(kPrefix).text(row.name);
  line.text("\n");
  os::write_stderr(line.view());
}

}  // namespace

std::span<const OptionRow> option_table() noexcept { return kTable; }

bool set_option(const OptionRow& row, std::string_view text, Options& options) noexcept {
  if (row.unit == OptionRow::Unit::kChoice) {
    const std::size_t choice = find_choice(row.choices, text);
    if (choice >= count_choices(row.choices)) return false;
    row.set(options, choice);
    return true;
  }
  std::size_t value;
  if (!parse_number(text, row.unit == OptionRow::Unit::kBytes, value)) return false;
  if (value < row.least || value > row.most) return false;
  row.set(options, value);
  return true;
}

void read_options(Options& options) noexcept {
  for (std::size_t i = 0; const char* entry = os::environment_entry(i); ++i) {
    const std::string_view text(entry);
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name(entry, equals);
    const std::string_view value(entry + equals + 1);
    const OptionRow* row = nullptr;
    for (const OptionRow& candidate : kTable) {
      if (name.ends_with(candidate.name) && name.size() == kPrefix.size() + candidate.name.size())
        row = &candidate;
    }
    if (row == nullptr) {
      warn_of_name(name);
    } else if (!set_option(*row, value, options)) {
      warn_of_value(*row, value);
    }
  }
}

}  // namespace strata
