// The malloc as an object, over a page source that may refuse: calls of three threads by turns,
// under options that the bytes choose, against a model. At the end nothing may be left.
#include <optional>

#include "blocks.h"
#include "malloc/malloc_in_test.h"

namespace {

using namespace strata;
using fuzz::Choices;
using fuzz::require;

Options choose_options(Choices& choices) {
  Options options;
  constexpr Options::Checks kChecks[] = {Options::Checks::kBasic, Options::Checks::kBasic,
                                         Options::Checks::kFrees, Options::Checks::kFull,
                                         Options::Checks::kAuto};
  options.checks = kChecks[choices.below(std::size(kChecks))];
  options.huge_pages = static_cast<HugePages>(choices.below(3));
  options.cache_bytes = choices.flag() ? choices.below(1 << 20) : options.cache_bytes;
  if (choices.flag()) options.soft_limit = choices.below(64 * kMiB);
  if (choices.flag()) options.hard_limit = 8 * kMiB + choices.below(64 * kMiB);
  return options;
}

class Program : TestMalloc {
 public:
  explicit Program(Choices& choices) : choices_(choices) {
    start(choose_options(choices));
    // The limit leaves out what the page map reserves at the start: those are only addresses.
    pages.limit_mapped_bytes(pages.mapped_bytes() + 512 * kMiB);
    for (auto& thread : threads_) thread.emplace(malloc);
  }

  void run() {
    for (int i = 0; !choices_.is_over(); ++i) {
      step();
      if (i % 16 == 0) check();
    }
    pages.refuse_nothing();
    while (!blocks_.is_empty()) deallocate();
    for (auto& thread : threads_) thread->end();
    check_nothing_is_left();
  }

 private:
  static constexpr std::size_t kUsualMost = 3 * kMiB;

  TestThread& any_thread() { return *threads_[choices_.below(std::size(threads_))]; }

  void step() {
    const std::uint8_t action = choices_.byte();
    if (action < 100) return allocate();
    if (action < 190) return deallocate();
    if (action < 230) return reallocate();
    switch (action) {
      case 230:
        engine.release_unneeded();
        return;
      case 231:
        engine.release_all();
        return;
      case 232:
        malloc.release_memory(any_thread().state);
        return;
      case 233:
        malloc.checked().flush_quarantine();
        return;
      case 234:
        pages.refuse_call(1 + choices_.below(16), 1 + choices_.below(16));
        return;
      case 235:
        return pages.refuse_nothing();
      case 236: {
        auto& thread = threads_[choices_.below(std::size(threads_))];
        thread->end();
        thread.emplace(malloc);
        return;
      }
      case 237:
        statistics();
        return;
      default:
        malloc.deallocate(any_thread().state, nullptr);
    }
  }

  void allocate() {
    const std::uint8_t how = choices_.byte();
    const std::size_t bytes = choices_.size(kUsualMost);
    const std::size_t alignment = how % 8 == 0 ? choices_.alignment(22) : 16;
    const bool is_zeroed = how % 8 == 1;
    TestThread& thread = any_thread();
    void* const p = is_zeroed         ? thread.allocate_zeroed(bytes)
                    : alignment == 16 ? thread.allocate(bytes)
                                      : thread.allocate(bytes, alignment);
    if (p == nullptr) return;
    if (is_zeroed) {
      for (std::size_t i = 0; i < bytes; i += 512)
        require(static_cast<char*>(p)[i] == 0, "calloc's bytes are zero");
    }
    blocks_.add(p, bytes, thread.usable_bytes(p), bytes < 16 && how % 8 != 0 ? 8 : alignment);
  }

  void deallocate() {
    if (blocks_.is_empty()) return;
    any_thread().deallocate(blocks_.take(choices_).address);
  }

  void reallocate() {
    if (blocks_.is_empty()) return;
    const Block block = blocks_.take(choices_);
    const std::size_t bytes = choices_.size(kUsualMost);
    TestThread& thread = any_thread();
    void* const p = thread.reallocate(block.address, bytes);
    if (p == nullptr) {
      if (bytes != 0) blocks_.put_back(block, thread.usable_bytes(block.address));
      return;
    }
    Block moved = block;
    moved.address = static_cast<unsigned char*>(p);
    require(has_content(moved, std::min(block.bytes, bytes)), "realloc keeps the content");
    blocks_.add(p, bytes, thread.usable_bytes(p), bytes < 16 ? 8 : 16);
  }

  Choices& choices_;
  fuzz::Blocks blocks_;
  std::optional<TestThread> threads_[3];
};

}  // namespace

STRATA_FUZZ(choices) { Program(choices).run(); }
