// Every option there is. A new one is a field of Options and a row at the end of the table;
// docs/options.md and `strata options` follow.

#include <cstddef>
#include <cstring>

#include "malloc/options.h"
#include "profile/sampling.h"

namespace strata {
namespace {

using Unit = OptionRow::Unit;
using Field = OptionRow::Field;

#define STRATA_FIELD(name) \
  Field { offsetof(Options, name), sizeof(Options::name) }

constexpr OptionRow choice(Field field, std::string_view name, std::string_view words,
                           std::string_view says) {
  return {name, Unit::kChoice, words, 0, 0, says, field};
}

constexpr OptionRow number(Field field, std::string_view name, Unit unit, std::size_t least,
                           std::size_t most, std::string_view says) {
  return {name, unit, "", least, most, says, field};
}

constexpr OptionRow text(Field field, std::string_view name, std::string_view says) {
  constexpr std::size_t kMostCharacters = 4095;  // of a path, to the kernel
  return {name, Unit::kText, "", 1, kMostCharacters, says, field};
}

constexpr std::size_t kTiB = std::size_t{1} << 40;
constexpr std::size_t kHour = 3'600'000;  // in milliseconds

/// For the compiler alone: the table in the binary (Packed) has no pointers.
constexpr OptionRow kRows[] = {
    choice(STRATA_FIELD(checks), "CHECKS", "basic|frees|full|auto",
           "basic: checks that cost nothing. frees: verifies every free and realloc at once, with "
           "thread caches; finds double frees, pointers into an object and deletes with a wrong "
           "size. full: verifies every free at once, without thread caches; fills and verifies "
           "freed memory and the bytes after every object, delays reuse, and places objects at "
           "random; finds use after free, overflow and mismatched deletes. auto: like frees, but "
           "without comparing sizes, as long as that takes about 1% of the program's CPU time and "
           "of its memory or less; basic from then on. At every level except basic, an access to a "
           "block of 0 bytes is a fault."),
    choice(
        STRATA_FIELD(stats), "STATS", "off|exit|signal|both",
        "Write statistics at normal exit, when the signal STRATA_STATS_SIGNAL arrives, or both."),
    choice(
        STRATA_FIELD(huge_pages), "HUGE_PAGES", "never|auto|always|system",
        "When 2 MiB regions ask for huge pages, and blocks of 16 MiB or more. auto: regions from "
        "32 MiB of heap on, where earlier ones are touched, as long as the kernel provides each "
        "within 1 ms; blocks until the program leaves one mostly untouched. system: as the "
        "settings in /sys/kernel/mm/transparent_hugepage say, which may also enable smaller "
        "sizes."),
    number(STRATA_FIELD(cache_bytes), "CACHE_BYTES", Unit::kBytes, 0, kTiB,
           "Bounds what all thread caches together hold, an equal share for each thread. More is "
           "held for a while where threads start and end, and each thread may hold up to 127 "
           "objects that are on their way to their pages. 0: they hold nothing. Freed objects also "
           "wait in caches between threads (transfer caches), which this does not bound."),
    number(STRATA_FIELD(release_delay_ms), "RELEASE_DELAY_MS", Unit::kMilliseconds, 0, kHour,
           "Memory that was not needed for this long goes back to the kernel; 0: only on "
           "malloc_trim."),
    number(STRATA_FIELD(soft_limit), "SOFT_LIMIT", Unit::kLimit, 0, 64 * kTiB,
           "While the malloc and all heaps hold more memory than this, caches shrink and all idle "
           "memory goes back to the kernel at once; 0: no limit. A value above STRATA_HARD_LIMIT "
           "counts as 0, with a warning."),
    number(
        STRATA_FIELD(hard_limit), "HARD_LIMIT", Unit::kLimit, 0, 64 * kTiB,
        "The malloc and all heaps never hold more memory than this: an allocation that would need "
        "more fails with ENOMEM; 0: no limit."),
    number(STRATA_FIELD(stats_signal), "STATS_SIGNAL", Unit::kNumber, 1, 64,
           "The signal that asks for statistics if STRATA_STATS is signal or both; 12 is SIGUSR2. "
           "Signals of faults, such as 11, are refused."),
    text(STRATA_FIELD(stats_file), "STATS_FILE",
         "Append statistics to this file instead of writing them to standard error."),
    text(STRATA_FIELD(profile), "PROFILE",
         "Sample allocations with their stacks and write a heap profile for pprof to this file at "
         "normal exit; %p is replaced by the process ID."),
    number(STRATA_FIELD(profile_rate), "PROFILE_RATE", Unit::kBytes, 1, Sampling::kMaxRate,
           "The mean number of bytes between samples of STRATA_PROFILE; 1: every allocation."),
    number(STRATA_FIELD(profile_signal), "PROFILE_SIGNAL", Unit::kNumber, 0, 64,
           "A signal on which STRATA_PROFILE also writes the file; 0: none; 12 is SIGUSR2. Signals "
           "of faults, such as 11, are refused."),
    choice(STRATA_FIELD(leaks), "LEAKS", "0|1",
           "1: record the stack of every allocation, and report on standard error at normal exit "
           "which are still live, by the place that made them. Full checks and guard pages do not "
           "see these allocations, nor those that STRATA_PROFILE samples."),
    number(STRATA_FIELD(guard_rate), "GUARD_RATE", Unit::kNumber, 0, Sampling::kMaxRate,
           "One in this many allocations, chosen at random, is placed between inaccessible pages: "
           "its overflow or use after free is reported with the stacks of its allocation and its "
           "free. Below 65536, every allocation has that chance and takes 40 more instructions. "
           "From 65536 on, only objects that a thread gets from the heap count, not those that it "
           "has freed and gets again, and guards take no measurable time; the first block from 160 "
           "to 256 KiB is guarded, too, and some later ones. 0: none."),
    choice(STRATA_FIELD(deep_bind), "DEEPBIND", "drop|keep",
           "drop: dlopen ignores RTLD_DEEPBIND, with which a library would get the C library's "
           "malloc instead of this one. keep: for libraries that need their own versions of the "
           "program's symbols and share no block with it."),
    choice(
        STRATA_FIELD(mismatches), "MISMATCHES", "arrays|all",
        "What full checks, and guard pages that were asked for, compare. arrays: delete of new[] "
        "memory, and delete[] of new memory, is an error. all: so is free of new memory, and "
        "delete of malloc memory, which libraries with their own C++ runtimes do without harm."),
    number(STRATA_FIELD(random), "RANDOM", Unit::kSeed, 1, UINT32_MAX,
           "on: the place of the heap, the order in which its parts come into use, and the choice "
           "of sampled and guarded objects differ from process to process. off: the heap lies at "
           "the same place in every process, and is used upwards. A number: as on, but the same in "
           "every process with that number, for repeatable runs."),
};

static_assert(std::size(kRows) == OptionTable::size());
static_assert(OptionTable::size() <= 64, "read_options() has a bit for each row");

/// A part of the rows' concatenated texts.
struct Text {
  std::uint16_t start;
  std::uint16_t bytes;
};

constexpr std::size_t kTextBytes = [] {
  std::size_t bytes = 0;
  for (const OptionRow& row : kRows)
    bytes += row.name.size() + row.choices.size() + row.sentence.size();
  return bytes;
}();
static_assert(kTextBytes <= UINT16_MAX);

/// The table in the binary: each pointer would be one more word for a program's start to write.
struct Packed {
  struct Row {
    std::size_t least;
    std::size_t most;
    Text name;
    Text choices;
    Text sentence;
    Unit unit;
    Field field;
  };
  Row rows[OptionTable::size()];
  char texts[kTextBytes];
};

constexpr Packed kPacked = [] {
  Packed packed{};
  std::size_t end = 0;
  const auto add = [&](std::string_view text) {
    const Text added{static_cast<std::uint16_t>(end), static_cast<std::uint16_t>(text.size())};
    for (const char character : text) packed.texts[end++] = character;
    return added;
  };
  for (std::size_t i = 0; i < OptionTable::size(); ++i) {
    const OptionRow& row = kRows[i];
    packed.rows[i] = {row.least,         row.most, add(row.name), add(row.choices),
                      add(row.sentence), row.unit, row.field};
  }
  return packed;
}();

std::string_view view(const Text& text) noexcept {
  return {kPacked.texts + text.start, text.bytes};
}

}  // namespace

OptionRow OptionTable::operator[](std::size_t index) const noexcept {
  const Packed::Row& row = kPacked.rows[index];
  return {view(row.name), row.unit,           view(row.choices), row.least,
          row.most,       view(row.sentence), row.field};
}

std::size_t OptionRow::value_of(const Options& options) const noexcept {
  std::size_t value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&options) + field.offset, field.bytes);
  return value;
}

void OptionRow::set_value(Options& options, std::size_t value) const noexcept {
  std::memcpy(reinterpret_cast<char*>(&options) + field.offset, &value, field.bytes);
}

}  // namespace strata
