// Every public name of the malloc, called as programs call it, on the process's own heap. Here the
// names begin with "fuzzed_", since the sanitizer has a malloc of its own (CMakeLists.txt). A run
// with STRATA_CHECKS=full takes the other path through all of them.
#include <strata/malloc.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "blocks.h"

extern "C" {
void* fuzzed_malloc(std::size_t);
void fuzzed_free(void*);
void* fuzzed_calloc(std::size_t, std::size_t);
void* fuzzed_realloc(void*, std::size_t);
void* fuzzed_reallocarray(void*, std::size_t, std::size_t);
void* fuzzed_memalign(std::size_t, std::size_t);
void* fuzzed_aligned_alloc(std::size_t, std::size_t);
int fuzzed_posix_memalign(void**, std::size_t, std::size_t);
void* fuzzed_valloc(std::size_t);
void* fuzzed_pvalloc(std::size_t);
std::size_t fuzzed_malloc_usable_size(void*);
int fuzzed_malloc_trim(std::size_t);
void fuzzed_free_sized(void*, std::size_t);
void fuzzed_free_aligned_sized(void*, std::size_t, std::size_t);
void* fuzzed__ZnwmRKSt9nothrow_t(std::size_t, const std::nothrow_t&);
void* fuzzed__ZnamRKSt9nothrow_t(std::size_t, const std::nothrow_t&);
void* fuzzed__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t, std::align_val_t,
                                                const std::nothrow_t&);
void* fuzzed__ZnamSt11align_val_tRKSt9nothrow_t(std::size_t, std::align_val_t,
                                                const std::nothrow_t&);
void fuzzed__ZdlPv(void*);
void fuzzed__ZdaPv(void*);
void fuzzed__ZdlPvm(void*, std::size_t);
void fuzzed__ZdaPvm(void*, std::size_t);
void fuzzed__ZdlPvSt11align_val_t(void*, std::align_val_t);
void fuzzed__ZdaPvSt11align_val_t(void*, std::align_val_t);
void fuzzed__ZdlPvmSt11align_val_t(void*, std::size_t, std::align_val_t);
void fuzzed__ZdaPvmSt11align_val_t(void*, std::size_t, std::align_val_t);
}

namespace {

using namespace strata;
using fuzz::Choices;
using fuzz::require;

/// How a block was made, which decides how it may be freed: an index into kMakers.
enum Maker : unsigned { kMalloc, kNew, kNewArray, kAlignedNew, kAlignedNewArray, kAligned };

struct Made {
  void* address = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 16;
  Maker maker = kMalloc;
};

std::size_t g_live_bytes;

/// Makes a size impossible if it could be too much for the machine.
std::size_t choose_size(Choices& choices, std::size_t count = 1) {
  constexpr std::size_t kMost = std::size_t{128} << 20;
  const std::size_t bytes = choices.size(std::size_t{3} << 20);
  std::size_t total;
  const bool is_bearable =
      !__builtin_mul_overflow(count, bytes, &total) && total <= kMost - g_live_bytes;
  return is_bearable ? bytes : bytes | std::size_t{1} << 62;
}

Made make(Choices& choices) {
  const std::uint8_t how = choices.byte() % 16;
  const std::size_t count = how != 0 ? 1 : choices.flag() ? choices.below(9) : choices.size(20);
  std::size_t bytes = choose_size(choices, count);
  const auto power = [&] { return choices.alignment(20); };
  void* p = nullptr;
  switch (how) {
    case 0: {
      p = fuzzed_calloc(count, bytes);
      const bool overflows = __builtin_mul_overflow(count, bytes, &bytes);
      require(p == nullptr || !overflows, "calloc refuses what overflows");
      for (std::size_t i = 0; p != nullptr && i < bytes; i += 512)
        require(static_cast<char*>(p)[i] == 0, "calloc's bytes are zero");
      return {p, bytes};
    }
    case 1: {
      const std::size_t alignment = choices.flag() ? power() : choices.size(100);
      p = fuzzed_aligned_alloc(alignment, bytes);
      return {p, bytes, alignment, kAligned};
    }
    case 2: {
      const std::size_t alignment = choices.flag() ? power() : choices.size(100);
      const int error = fuzzed_posix_memalign(&p, alignment, bytes);
      require((error == 0) == (p != nullptr), "posix_memalign gives an error or a block");
      require(error == 0 || error == EINVAL || error == ENOMEM, "its errors are these");
      return {p, bytes, alignment, kAligned};
    }
    case 3: {
      const std::size_t alignment = choices.flag() ? power() : choices.size(100);
      p = fuzzed_memalign(alignment, bytes);
      return {p, bytes, alignment > 1 ? alignment & (~alignment + 1) : 1};
    }
    case 4:
      return {fuzzed_valloc(bytes), bytes, 4096};
    case 5:
      return {fuzzed_pvalloc(bytes), bytes, 4096};
    case 6:
      return {fuzzed__ZnwmRKSt9nothrow_t(bytes, std::nothrow), bytes, 16, kNew};
    case 7:
      return {fuzzed__ZnamRKSt9nothrow_t(bytes, std::nothrow), bytes, 16, kNewArray};
    case 8:
    case 9: {
      const std::size_t alignment = power();
      const auto value = static_cast<std::align_val_t>(alignment);
      const bool is_array = how == 9;
      p = is_array ? fuzzed__ZnamSt11align_val_tRKSt9nothrow_t(bytes, value, std::nothrow)
                   : fuzzed__ZnwmSt11align_val_tRKSt9nothrow_t(bytes, value, std::nothrow);
      return {p, bytes, alignment, is_array ? kAlignedNewArray : kAlignedNew};
    }
    case 10:
      return {strata_malloc(bytes), bytes};
    case 11:
      return {fuzzed_reallocarray(nullptr, 1, bytes), bytes};
    default:
      return {fuzzed_malloc(bytes), bytes};
  }
}

void free_in_some_way(Choices& choices, const Made& made) {
  const bool is_sized = choices.flag();
  const auto alignment = static_cast<std::align_val_t>(made.alignment);
  switch (made.maker) {
    case kNew:
      return is_sized ? fuzzed__ZdlPvm(made.address, made.bytes) : fuzzed__ZdlPv(made.address);
    case kNewArray:
      return is_sized ? fuzzed__ZdaPvm(made.address, made.bytes) : fuzzed__ZdaPv(made.address);
    case kAlignedNew:
      return is_sized ? fuzzed__ZdlPvmSt11align_val_t(made.address, made.bytes, alignment)
                      : fuzzed__ZdlPvSt11align_val_t(made.address, alignment);
    case kAlignedNewArray:
      return is_sized ? fuzzed__ZdaPvmSt11align_val_t(made.address, made.bytes, alignment)
                      : fuzzed__ZdaPvSt11align_val_t(made.address, alignment);
    case kAligned:
      return is_sized ? fuzzed_free_aligned_sized(made.address, made.alignment, made.bytes)
                      : fuzzed_free(made.address);
    case kMalloc:
      return choices.flag() ? fuzzed_free(made.address) : strata_free(made.address);
  }
}

class Program {
 public:
  explicit Program(Choices& choices) : choices_(choices) {}

  void run() {
    while (!choices_.is_over()) step();
    Choices first(nullptr, 0);
    while (!blocks_.is_empty()) free_in_some_way(first, take(first));
    strata_release_memory();
  }

 private:
  void step() {
    const std::uint8_t action = choices_.byte();
    if (action < 110) return allocate();
    if (action < 210) {
      if (!blocks_.is_empty()) free_in_some_way(choices_, take(choices_));
      return;
    }
    if (action < 245) return reallocate();
    switch (action % 4) {
      case 0:
        fuzzed_malloc_trim(choices_.byte());
        return;
      case 1: {
        char text[64];
        require(strata_stats_json(text, choices_.below(65)) < 16384, "statistics fit into 16 KiB");
        return;
      }
      case 2:
        require(strata_options_json(nullptr, 0) != 0, "there are options");
        return;
      default:
        fuzzed_free(nullptr);
        require(fuzzed_malloc_usable_size(nullptr) == 0, "nothing has no bytes");
    }
  }

  void allocate() {
    errno = 0;
    const Made made = make(choices_);
    if (made.address == nullptr) {
      require(errno == ENOMEM || errno == EINVAL || made.maker == kAligned, "errno says why");
      return;
    }
    const std::size_t least = made.bytes < 16 && made.alignment == 16 ? 8 : made.alignment;
    add(made, least);
  }
  void add(const Made& made, std::size_t alignment) {
    blocks_.add(made.address, made.bytes, fuzzed_malloc_usable_size(made.address), alignment);
    made_[made.address] = made;
    g_live_bytes += made.bytes;
  }
  void forget(void* address) {
    const auto made = made_.find(address);
    g_live_bytes -= made->second.bytes;
    made_.erase(made);
  }
  Made take(Choices& choices) {
    const Block block = blocks_.take(choices);
    const Made made = made_.at(block.address);
    forget(block.address);
    return made;
  }

  void reallocate() {
    if (blocks_.is_empty()) return;
    const Block block = blocks_.take(choices_);
    const Made made = made_.at(block.address);
    const std::size_t count = choices_.flag() ? 1 : choices_.below(5);
    const std::size_t bytes = choose_size(choices_, count);
    void* const p = count == 1 ? fuzzed_realloc(block.address, bytes)
                               : fuzzed_reallocarray(block.address, count, bytes);
    std::size_t total;
    const bool overflows = __builtin_mul_overflow(count, bytes, &total);
    if (p == nullptr) {
      if (!overflows && total == 0) {
        forget(block.address);
      } else {
        blocks_.put_back(block, fuzzed_malloc_usable_size(block.address));
      }
      return;
    }
    forget(block.address);
    Block moved = block;
    moved.address = static_cast<unsigned char*>(p);
    require(has_content(moved, std::min(made.bytes, total)), "realloc keeps the content");
    add({p, total}, total < 16 ? 8 : 16);
  }

  Choices& choices_;
  fuzz::Blocks blocks_;
  std::map<void*, Made> made_;
};

}  // namespace

STRATA_FUZZ(choices) { Program(choices).run(); }
