// Every option there is. A new one is a field of Options and a row at the end of the table;
// docs/options.md and `strata options` follow.

#include "malloc/options.h"
#include "profile/sampling.h"

namespace strata {
namespace {

using Unit = OptionRow::Unit;

template <typename T>
struct FieldOf;
template <typename T>
struct FieldOf<T Options::*> {
  using Type = T;
};

template <auto kField>
constexpr std::size_t get_field(const Options& options) {
  return static_cast<std::size_t>(options.*kField);
}

template <auto kField>
constexpr void set_field(Options& options, std::size_t value) {
  options.*kField = static_cast<typename FieldOf<decltype(kField)>::Type>(value);
}

template <auto kField>
constexpr OptionRow choice(std::string_view name, std::string_view words, std::string_view says) {
  return {name, Unit::kChoice, words, 0, 0, says, get_field<kField>, set_field<kField>, nullptr};
}

template <auto kField>
constexpr OptionRow number(std::string_view name, Unit unit, std::size_t least, std::size_t most,
                           std::string_view says) {
  return {name, unit, "", least, most, says, get_field<kField>, set_field<kField>, nullptr};
}

template <auto kField>
constexpr OptionRow text(std::string_view name, std::string_view says) {
  constexpr std::size_t kMostCharacters = 4095;  // of a path, to the kernel
  return {name, Unit::kText, "", 1, kMostCharacters, says, nullptr, nullptr, kField};
}

constexpr std::size_t kTiB = std::size_t{1} << 40;
constexpr std::size_t kHour = 3'600'000;  // in milliseconds

constexpr OptionRow kTable[] = {
    choice<&Options::checks>(
        "CHECKS", "basic|frees|full|auto",
        "basic: checks that cost nothing. frees: every free and realloc is verified at once, "
        "thread caches stay; a double free, a pointer into an object and a delete with a wrong "
        "size are found. full: every free is verified at once; freed memory and "
        "the bytes after every object are filled and verified; freed objects wait before they are "
        "used again; places are random. It finds use after free, overflow and mismatched deletes, "
        "and does without the thread cache. auto: frees, sizes apart, as long as that takes about "
        "1% of the program's CPU time and of its memory or less; basic from then on, and where the "
        "address space is limited. But for basic, any access to a block of 0 bytes is a fault."),
    choice<&Options::stats>(
        "STATS", "off|exit|signal|both",
        "Write statistics at normal exit, when the signal STRATA_STATS_SIGNAL arrives, or both."),
    choice<&Options::huge_pages>(
        "HUGE_PAGES", "never|auto|always",
        "When 2 MiB regions ask for huge pages. auto: once the heap is so large that one more "
        "region does not matter."),
    number<&Options::cache_bytes>(
        "CACHE_BYTES", Unit::kBytes, 0, kTiB,
        "How much all thread caches together may hold; each thread holds at most its share."),
    number<&Options::release_delay_ms>(
        "RELEASE_DELAY_MS", Unit::kMilliseconds, 0, kHour,
        "Memory that was not needed for this long goes back to the kernel; 0: only on "
        "malloc_trim."),
    number<&Options::soft_limit>(
        "SOFT_LIMIT", Unit::kLimit, 0, 64 * kTiB,
        "While the malloc and all heaps hold more memory than this, caches shrink and all idle "
        "memory goes back to the kernel at once; 0: no limit."),
    number<&Options::hard_limit>(
        "HARD_LIMIT", Unit::kLimit, 0, 64 * kTiB,
        "The malloc and all heaps never hold more memory than this: an allocation that would need "
        "more fails with ENOMEM; 0: no limit."),
    number<&Options::stats_signal>(
        "STATS_SIGNAL", Unit::kNumber, 1, 64,
        "The signal that asks for statistics if STRATA_STATS is signal or both; 12 is SIGUSR2."),
    text<&Options::stats_file>(
        "STATS_FILE", "Append statistics to this file instead of writing them to standard error."),
    text<&Options::profile>(
        "PROFILE",
        "Sample allocations with their stacks and write a heap profile for pprof to this file at "
        "normal exit; %p is replaced by the process ID."),
    number<&Options::profile_rate>(
        "PROFILE_RATE", Unit::kBytes, 1, Sampling::kMaxRate,
        "The mean number of bytes between samples of STRATA_PROFILE; 1: every allocation."),
    number<&Options::profile_signal>(
        "PROFILE_SIGNAL", Unit::kNumber, 0, 64,
        "A signal on which STRATA_PROFILE also writes the file; 0: none; 12 is SIGUSR2."),
    choice<&Options::leaks>(
        "LEAKS", "0|1",
        "1: record the stack of every allocation, and report on standard error at normal exit what "
        "is still live, by the place that allocated it."),
    number<&Options::guard_rate>(
        "GUARD_RATE", Unit::kNumber, 0, Sampling::kMaxRate,
        "One in this many allocations, chosen at random, is placed between inaccessible pages: its "
        "overflow or use after free is reported with the stacks of its allocation and its free. "
        "Below 65536 every allocation has that chance, and takes 40 instructions more; from there "
        "on only objects that a thread gets from the heap count, not those that it has freed and "
        "gets again, and guards take no time that shows; the first block from 160 to 256 KiB is "
        "guarded, too, and some later ones. 0: none."),
    choice<&Options::deep_bind>(
        "DEEPBIND", "drop|keep",
        "drop: dlopen ignores RTLD_DEEPBIND, with which a library would get the C library's malloc "
        "instead of this one. keep: for libraries that bring their own versions of symbols of the "
        "program and share no block with it."),
    choice<&Options::mismatches>(
        "MISMATCHES", "arrays|all",
        "What full checks and guard pages compare. arrays: delete of what new[] made, and delete[] "
        "of what new made, is an error. all: so is free of what new made, and delete of what "
        "malloc made, which libraries with C++ runtimes of their own do without harm."),
    number<&Options::random>(
        "RANDOM", Unit::kSeed, 1, UINT32_MAX,
        "on: where the heap lies, in which order its parts come into use, and what is sampled or "
        "guarded differ from process to process. off: the heap lies at the same place in every "
        "process, and is used upwards. A number: as on, but the same in every process with that "
        "number, for runs that can be repeated."),
};

static_assert(std::size(kTable) <= 64, "read_options() has a bit for each row");

}  // namespace

std::span<const OptionRow> option_table() noexcept { return kTable; }

}  // namespace strata
