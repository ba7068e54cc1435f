#include "malloc/options.h"

#include <algorithm>
#include <array>

#include "base/random.h"
#include "os/control_group.h"
#include "os/environment.h"
#include "os/output.h"
#include "os/text_parts.h"

namespace strata {
namespace {

/// Finds the position of `text` among "a|b|c". False if it is none of them.
bool parse_choice(std::string_view choices, std::string_view text, std::size_t& value) noexcept {
  for (value = 0; !choices.empty(); ++value) {
    if (os::take_part(choices, '|') == text) return true;
  }
  return false;
}

/// Reads a whole number, for bytes with an optional k, m or g (powers of 1024). False on anything
/// else.
bool parse_number(std::string_view text, bool is_bytes, std::size_t& value) noexcept {
  std::size_t shift = 0;
  if (is_bytes && !text.empty()) {
    // One more than the place of the suffix, so that 0 stands for none.
    shift = 10 * (std::string_view("kmg").find(static_cast<char>(text.back() | 0x20)) + 1);
    if (shift != 0) text.remove_suffix(1);
  }
  std::size_t number = 0;
  return os::is_number(text, number) &&
         !__builtin_mul_overflow(number, std::size_t{1} << shift, &value);
}

/// Reads a number of bytes, or a share from 1% to 100%.
bool parse_limit(std::string_view text, std::size_t& value) noexcept {
  if (text.empty() || text.back() != '%')
    return parse_number(text, true, value) && (value & OptionRow::kShare) == 0;
  text.remove_suffix(1);
  if (!parse_number(text, false, value) || value < 1 || value > 100) return false;
  value |= OptionRow::kShare;
  return true;
}

/// Reads a number, except those that stand for on and off.
bool parse_seed(std::string_view text, std::size_t& value) noexcept {
  const bool is_on = text == "on";
  if (!is_on && text != "off")
    return parse_number(text, false, value) && value != Options::kRandomOn &&
           value != Options::kRandomOff;
  value = is_on ? Options::kRandomOn : Options::kRandomOff;
  return true;
}

void write_seed(std::size_t value, TextWriter& out) noexcept {
  if (value != Options::kRandomOn && value != Options::kRandomOff) {
    out.decimal(value);
  } else {
    out.text(value == Options::kRandomOn ? "on" : "off");
  }
}

void write_bytes(std::size_t bytes, TextWriter& out) noexcept {
  constexpr std::string_view kSuffixes[] = {"", "k", "m", "g"};
  unsigned index = 0;
  for (; index < 3 && bytes != 0 && bytes % 1024 == 0; ++index) bytes /= 1024;
  out.decimal(bytes).text(kSuffixes[index]);
}

/// Writes text of the environment as part of one line on a terminal, cut if it is long.
void write_foreign(std::string_view text, TextWriter& out) noexcept {
  out.name(os::start_of(text, 64));
}

char upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 0x20) : c; }

/// The edit distance of two names, ignoring case.
/// \source  Levenshtein (1966), one row at a time
std::size_t distance(std::string_view a, std::string_view b) noexcept {
  constexpr std::size_t kMost = 32;
  if (a.size() > kMost || b.size() > kMost) return kMost;
  std::size_t row[kMost + 1];
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t before = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before + (upper(a[i - 1]) != upper(b[j - 1]) ? 1 : 0);
      before = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// The option that a misspelt name may mean; empty if it is like none.
std::string_view nearest_option(std::string_view name) noexcept {
  // Chosen: two slips of the finger.
  std::size_t least = 3;
  std::string_view nearest;
  name.remove_prefix(kOptionPrefix.size());
  for (const OptionRow row : option_table()) {
    const std::size_t away = distance(name, row.name);
    if (away >= least) continue;
    least = away;
    nearest = row.name;
  }
  return nearest;
}

void warn_of_value(const OptionRow& row, std::string_view text) noexcept {
  TextWriter line;
  line.text("strata: warning: ").text(kOptionPrefix).text(row.name);
  line.text("=");
  write_foreign(text, line);
  line.text(" is not understood; it is ");
  write_range(row, line);
  line.text("; the default is used\n");
  os::write_stderr(line.view());
}

/// \param options  as the environment has them
void warn_of_limits(const Options& options) noexcept {
  TextWriter line;
  const char* before = "strata: warning: ";
  for (const OptionRow row : option_table()) {  // the soft limit's row comes before the hard one's
    if (row.unit != OptionRow::Unit::kLimit) continue;
    line.text(before).text(kOptionPrefix).text(row.name).text("=");
    write_value(row, options, line);
    before = " is above ";
  }
  line.text("; there is no soft limit, only the hard one\n");
  os::write_stderr(line.view());
}

void warn_of_name(std::string_view name) noexcept {
  TextWriter line;
  line.text("strata: warning: ");
  write_foreign(name, line);
  if (const std::string_view meant = nearest_option(name); !meant.empty()) {
    line.text(" is not an option; did you mean ").text(kOptionPrefix).text(meant).text("?");
  } else {
    line.text(" is not an option; the options are");
    for (const OptionRow row : option_table()) line.text(" ").text(kOptionPrefix).text(row.name);
  }
  os::write_stderr(line.text("\n").view());
}

void warn_of_more(std::size_t count) noexcept {
  TextWriter line;
  line.text("strata: warning: ").decimal(count);
  line.text(" more options are not understood; strata options lists them\n");
  os::write_stderr(line.view());
}

bool is_name_of(const OptionRow& row, std::string_view name) noexcept {
  return name.size() == kOptionPrefix.size() + row.name.size() &&
         os::begins_with(name, kOptionPrefix) && name.ends_with(row.name);
}

/// \returns  the size of the table if no option has that name
std::size_t index_of(std::string_view name) noexcept {
  std::size_t index = 0;
  while (index < OptionTable::size() && !is_name_of(option_table()[index], name)) ++index;
  return index;
}

/// The entry's name, if it begins like that of an option; otherwise empty.
std::string_view name_in(const char* entry) noexcept {
  const std::string_view text(entry);
  const std::size_t equals = text.find('=');
  const bool is_ours = equals != std::string_view::npos && os::begins_with(text, kOptionPrefix);
  return os::start_of(text, is_ours ? equals : 0);
}

/// Names for others, which are no mistakes: what scripts and tests read, and what `strata record`
/// tells its recorder. The only list of them.
bool is_of_others(std::string_view name) noexcept {
  name.remove_prefix(kOptionPrefix.size());
  return name == "BOOTSTRAP" || name == "FUZZ_CORPUS" || name == "SEED" || name == "RECORD" ||
         os::begins_with(name, "RECORD_");
}

}  // namespace

bool set_option(const OptionRow& row, std::string_view text, Options& options) noexcept {
  std::size_t value = 0;
  switch (row.unit) {
    case OptionRow::Unit::kText:
      if (text.size() < row.least || text.size() > row.most) return false;
      row.set_value(options, reinterpret_cast<std::uintptr_t>(text.data()));
      return true;
    case OptionRow::Unit::kChoice:
      if (!parse_choice(row.choices, text, value)) return false;
      break;
    case OptionRow::Unit::kLimit:
      if (!parse_limit(text, value)) return false;
      break;
    case OptionRow::Unit::kBytes:
      if (!parse_number(text, true, value)) return false;
      break;
    case OptionRow::Unit::kSeed:
      if (!parse_seed(text, value)) return false;
      break;
    default:
      if (!parse_number(text, false, value)) return false;
  }
  const bool is_share = row.unit == OptionRow::Unit::kLimit && (value & OptionRow::kShare) != 0;
  const bool is_word = row.unit == OptionRow::Unit::kChoice ||
                       (row.unit == OptionRow::Unit::kSeed &&
                        (value == Options::kRandomOn || value == Options::kRandomOff));
  const bool has_range = !is_word && !is_share;
  if (has_range && (value < row.least || value > row.most)) return false;
  row.set_value(options, value);
  return true;
}

void write_value(const OptionRow& row, const Options& options, TextWriter& out) noexcept {
  const std::size_t value = row.value_of(options);
  switch (row.unit) {
    case OptionRow::Unit::kText:
      out.text(reinterpret_cast<const char*>(value));
      break;
    case OptionRow::Unit::kChoice: {
      std::string_view words = row.choices;
      for (std::size_t i = 0; i < value; ++i) words.remove_prefix(words.find('|') + 1);
      out.text(os::start_of(words, words.find('|')));
      break;
    }
    case OptionRow::Unit::kLimit:
      if ((value & OptionRow::kShare) != 0) {
        out.decimal(value & ~OptionRow::kShare).text("%");
        break;
      }
      [[fallthrough]];
    case OptionRow::Unit::kBytes:
      write_bytes(value, out);
      break;
    case OptionRow::Unit::kSeed:
      write_seed(value, out);
      break;
    default:
      out.decimal(value);
  }
}

void write_range(const OptionRow& row, TextWriter& out) noexcept {
  if (row.unit == OptionRow::Unit::kChoice) {
    out.text("one of ").text(row.choices);
    return;
  }
  if (row.unit == OptionRow::Unit::kText) {
    out.text("a text of ").decimal(row.least).text(" to ").decimal(row.most).text(" characters");
    return;
  }
  if (row.unit == OptionRow::Unit::kSeed) out.text("on, off or ");
  const bool is_bytes = row.unit == OptionRow::Unit::kBytes || row.unit == OptionRow::Unit::kLimit;
  out.text("a number from ").decimal(row.least).text(" to ");
  if (is_bytes) {
    write_bytes(row.most, out);
  } else {
    out.decimal(row.most);
  }
  switch (row.unit) {
    case OptionRow::Unit::kBytes:
      out.text(" bytes, k, m and g understood");
      break;
    case OptionRow::Unit::kLimit:
      out.text(
          " bytes, k, m and g understood, or 1% to 100% of the memory of the container or, without "
          "one, "
          "of the machine");
      break;
    case OptionRow::Unit::kMilliseconds:
      out.text(" milliseconds");
      break;
    default:
      break;
  }
}

const char* option_in_environment(const OptionRow& row) noexcept {
  for (std::size_t i = 0; const char* entry = os::environment_entry(i); ++i) {
    const std::string_view name = name_in(entry);
    if (is_name_of(row, name)) return entry + name.size() + 1;
  }
  return nullptr;
}

void settle_limits(Options& options) noexcept {
  const auto bytes_of = [](std::size_t option) noexcept {
    if ((option & OptionRow::kShare) == 0) return option;
    return os::allowed_memory_bytes() / 100 * (option & ~OptionRow::kShare);
  };
  const Options as_set = options;
  options.soft_limit = bytes_of(as_set.soft_limit);
  options.hard_limit = bytes_of(as_set.hard_limit);
  if (options.hard_limit == 0 || options.soft_limit <= options.hard_limit) return;
  warn_of_limits(as_set);
  options.soft_limit = 0;
}

std::uint64_t seed_of(std::size_t random) noexcept {
  return random == Options::kRandomOn ? os::random_seed() : random_word(random, 0);
}

std::size_t random_of_environment() noexcept {
  Options options;
  if (os::has_foreign_rights()) return options.random;
  for (const OptionRow row : option_table()) {
    const char* const text =
        row.unit == OptionRow::Unit::kSeed ? option_in_environment(row) : nullptr;
    if (text != nullptr) set_option(row, text, options);
  }
  return options.random;
}

/// Not a string literal, which would lie among those of reports: every program's variables are
/// compared with it before main.
static constexpr auto kPrefix = [] {
  std::array<char, kOptionPrefix.size()> prefix{};
  std::copy(kOptionPrefix.begin(), kOptionPrefix.end(), prefix.begin());
  return prefix;
}();

/// Reads no farther than the prefix.
static bool is_option(const char* entry) noexcept {
  for (const char character : kPrefix) {
    if (*entry++ != character) return false;
  }
  return true;
}

bool is_any_option_set() noexcept {
  for (std::size_t i = 0; const char* entry = os::environment_entry(i); ++i) {
    if (is_option(entry)) return !os::has_foreign_rights();
  }
  return false;
}

std::string_view mistaken_name_in(const char* entry) noexcept {
  const std::string_view name = name_in(entry);
  if (name.empty() || index_of(name) != OptionTable::size() || is_of_others(name)) return {};
  return name;
}

void read_options(Options& options) noexcept {
  if (os::has_foreign_rights()) return;
  // Chosen: more mistakes than these are no slips of the finger.
  constexpr std::size_t kMostWarnings = 8;
  std::size_t misunderstood = 0;
  std::uint64_t seen = 0;  // bit i: row i of the table
  for (std::size_t i = 0; const char* entry = os::environment_entry(i); ++i) {
    const std::string_view name = name_in(entry);
    if (name.empty()) continue;
    const std::string_view value(entry + name.size() + 1);
    const std::size_t index = index_of(name);
    const bool is_known = index < OptionTable::size();
    if (is_known) {
      const std::uint64_t bit = std::uint64_t{1} << index;
      if ((seen & bit) != 0) continue;
      seen |= bit;
      if (set_option(option_table()[index], value, options)) continue;
    }
    if (!is_known && is_of_others(name)) continue;
    if (++misunderstood > kMostWarnings) continue;
    if (is_known) {
      warn_of_value(option_table()[index], value);
    } else {
      warn_of_name(name);
    }
  }
  if (misunderstood > kMostWarnings) warn_of_more(misunderstood - kMostWarnings);
}

}  // namespace strata
