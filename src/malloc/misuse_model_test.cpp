// Random objects, by size, against a model of them, at every level of checks. Now and then a child
// process commits a misuse: it has to die with its sentence at the moment that the table in
// docs/design.md promises. The parent goes on with correct calls, none of which may be refused.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"
#include "os/emulation.h"

namespace strata {
namespace {

using Checks = Options::Checks;

/// For a place that is free or inside an object: which of these sentences comes depends on what
/// became of the place.
const std::string kIsNoObject =
    "(it was freed just before|the (object|block) is free"
    "|the object was freed twice, or deleted with a size that is not its own"
    "|(Strata did not allocate it, or )?it was freed before|nothing is mapped"
    "|it points into an (object|allocation), not at its start)";

class MisuseModel : public SeededTest,
                    public ::testing::WithParamInterface<Checks>,
                    protected TestMalloc {
 protected:
  struct Object {
    char* address;
    std::size_t bytes;
  };

  MisuseModel() { TestMalloc::start({.checks = GetParam()}); }

  /// Under `auto`, the process uses enough CPU time for every free to be verified, until the test
  /// ends that.
  std::uint64_t cpu_ns() noexcept override { return is_auto_over_ ? 0 : UINT64_MAX; }
  void end_auto() {
    is_auto_over_ = true;
    TestThread thread(malloc);
    for (int i = 0; i < 300'000; ++i) thread.deallocate(thread.allocate(100));
    ASSERT_FALSE(malloc.verifies_frees());
  }

  /// Whether this level's promises hold now.
  bool is(Checks level) const {
    if (GetParam() != Checks::kAuto) return GetParam() == level;
    return level == (is_auto_over_ ? Checks::kBasic : Checks::kFrees);
  }
  TestThread& any_thread() { return threads_[below(std::size(threads_))]; }

  // --- what is correct -------------------------------------------------------------------------

  std::size_t pick_size() {
    switch (below(16)) {
      case 0:
        return 1 + below(2 * kMiB);
      case 1:
      case 2:
        return 1 + below(120'000);
      default:
        return 1 + below(600);
    }
  }

  void step() {
    if (live_.empty() || (live_.size() < 200 && below(2) == 0)) return allocate();
    Object& object = live_[below(live_.size())];
    if (below(8) == 0) return reallocate(object);
    const Object gone = object;
    object = live_.back();
    live_.pop_back();
    free(gone);
  }

  void allocate() {
    const std::size_t bytes = pick_size();
    auto* const p = static_cast<char*>(any_thread().allocate(bytes));
    ASSERT_NE(p, nullptr);
    came_back(p);
    live_.push_back({p, bytes});
  }
  void free(const Object& object) {
    freed_.push_back(object);
    malloc.deallocate(any_thread().state, object.address,
                      below(2) == 0 ? FreeCall{} : freeing(object.bytes));
  }
  void reallocate(Object& object) {
    const Object before = object;
    object.bytes = pick_size();
    object.address = static_cast<char*>(any_thread().reallocate(before.address, object.bytes));
    ASSERT_NE(object.address, nullptr);
    if (object.address != before.address) freed_.push_back(before);
    came_back(object.address);
  }
  /// `p` has been handed out: places of freed objects that lie in it are no longer free.
  void came_back(const char* p) {
    const std::size_t bytes = malloc.usable_bytes(p);
    std::erase_if(freed_, [&](const Object& freed) {
      return freed.address < p + bytes && p < freed.address + freed.bytes;
    });
  }
  void free_everything() {
    for (const Object& object : live_) any_thread().deallocate(object.address);
    for (TestThread& thread : threads_) thread.end();
  }

  // --- what is not -----------------------------------------------------------------------------

  enum class Moment { kAtOnce, kWhenItReachesItsSpan };

  template <typename Misuse>
  void expect_death(Moment moment, const std::string& sentence, const Misuse& misuse) {
    EXPECT_DEATH(
        {
          misuse();
          if (moment == Moment::kWhenItReachesItsSpan) settle();
        },
        "strata: " + sentence);
  }
  /// Sends all objects in caches to their spans.
  void settle() {
    for (TestThread& thread : threads_) {
      if (thread.state.cache != nullptr) thread.state.cache->flush_all();
    }
    engine.central().flush_transfer();
    engine.release_all();
  }

  bool is_small(const Object& object) const { return engine.class_of(object.address) != 0; }
  /// Under `basic` only its span knows an object's state.
  Moment where_a_free_is_verified() const {
    return is(Checks::kBasic) ? Moment::kWhenItReachesItsSpan : Moment::kAtOnce;
  }

  void free_what_is_free() {
    if (freed_.empty()) return;
    char* const p = freed_[below(freed_.size())].address;
    expect_death(where_a_free_is_verified(), "(double|invalid) free of 0x[0-9a-f]+: " + kIsNoObject,
                 [&] { any_thread().deallocate(p); });
  }
  void free_twice_in_a_row() {
    TestThread& thread = any_thread();
    const std::size_t bytes = 1 + below(100'000);
    expect_death(Moment::kAtOnce, "double free of 0x[0-9a-f]+: (it was freed just|the object is)",
                 [&] {
                   void* const p = thread.allocate(bytes);
                   thread.deallocate(p);
                   const bool is_in_a_bin = !is(Checks::kBasic) || has_in_bin(thread, bytes);
                   thread.deallocate(p);
                   if (!is_in_a_bin) settle();
                 });
  }
  static bool has_in_bin(const TestThread& thread, std::size_t bytes) {
    return thread.state.cache->count_objects(SizeClassMap::class_of(bytes)) != 0;
  }
  void free_the_inside() {
    const Object& object = live_[below(live_.size())];
    const std::size_t grains = object.bytes / 16;
    if (grains < 2) return;
    char* const p = object.address + 16 * (1 + below(grains - 1));
    expect_death(is_small(object) ? where_a_free_is_verified() : Moment::kAtOnce,
                 "invalid free of 0x[0-9a-f]+: it points into an (object|allocation), not at its",
                 [&] { any_thread().deallocate(p); });
  }
  void resize_the_inside() {
    const Object& object = live_[below(live_.size())];
    const std::size_t grains = object.bytes / 16;
    if (grains < 2) return;
    char* const p = object.address + 16 * (1 + below(grains - 1));
    expect_death(Moment::kAtOnce, "invalid realloc of 0x[0-9a-f]+: it points into an",
                 [&] { any_thread().reallocate(p, 1 + below(3000)); });
  }
  void free_what_is_not_ours() {
    alignas(16) char on_the_stack[64] = {};
    expect_death(Moment::kAtOnce, "invalid free of 0x[0-9a-f]+: " + os::lies_in_stack(),
                 [&] { any_thread().deallocate(on_the_stack + 16 * below(4)); });
  }
  void free_between_two_grains() {
    char* const p = live_[below(live_.size())].address + 1 + below(15);
    expect_death(Moment::kAtOnce, "invalid free of 0x[0-9a-f]+: it (is misaligned|points into)",
                 [&] { any_thread().deallocate(p); });
  }
  void resize_what_is_free() {
    if (is(Checks::kBasic) || freed_.empty()) return;
    char* const p = freed_[below(freed_.size())].address;
    expect_death(Moment::kAtOnce, "invalid realloc of 0x[0-9a-f]+: " + kIsNoObject,
                 [&] { any_thread().reallocate(p, 1 + below(3000)); });
  }
  void delete_with_another_size() {
    if (GetParam() == Checks::kBasic || GetParam() == Checks::kAuto) return;
    const Object& object = live_[below(live_.size())];
    if (is(Checks::kFrees) && !is_small(object)) return;
    // Under `frees` the requested size is not kept: only a size of another class is wrong.
    const std::size_t known =
        is(Checks::kFrees) ? malloc.usable_bytes(object.address) : object.bytes;
    const std::size_t wrong = known + 1;
    expect_death(Moment::kAtOnce,
                 "mismatched sized delete of 0x[0-9a-f]+: it (is an object|was allocated)",
                 [&] { malloc.deallocate(any_thread().state, object.address, deleting(wrong)); });
  }
  void delete_with_another_alignment() {
    if (!is(Checks::kFull)) return;
    const Object& object = live_[below(live_.size())];
    expect_death(Moment::kAtOnce, "mismatched sized delete|mismatched aligned delete", [&] {
      const FreeCall call = deleting(object.bytes, 64);
      void* const p = any_thread().allocate(object.bytes);
      malloc.deallocate(any_thread().state, p, call);
    });
  }
  /// A small object that has another one before it in its span, as nearly all have; nullptr if
  /// there is none.
  char* any_small_object(std::size_t& bytes) {
    const Object& object = live_[below(live_.size())];
    bytes = object.bytes;
    if (!is(Checks::kFull) || !is_small(object)) return nullptr;
    return engine.map().span_of(object.address)->start == object.address ? nullptr : object.address;
  }
  void write_beside() {
    std::size_t bytes;
    char* const p = any_small_object(bytes);
    if (p == nullptr) return;
    char* const beside = below(2) == 0 ? p - 1 - below(16) : p + bytes + below(16);
    expect_death(Moment::kAtOnce, "(overflow|underflow|use after free) of 0x[0-9a-f]+: ", [&] {
      *beside = static_cast<char>(~*beside);
      any_thread().deallocate(p);
    });
  }
  void write_what_is_free() {
    std::size_t bytes;
    char* const p = any_small_object(bytes);
    if (p == nullptr) return;
    const std::size_t offset = below(bytes);
    const std::string which =
        std::to_string(offset) + " of this object of " + std::to_string(bytes) + " bytes";
    expect_death(Moment::kAtOnce,
                 "use after free of 0x[0-9a-f]+: the program wrote at offset " + which, [&] {
                   any_thread().deallocate(p);
                   p[offset] = static_cast<char>(~p[offset]);
                   malloc.checked().flush_quarantine();
                 });
  }

  void misuse() {
    if (live_.empty()) return;
    constexpr void (MisuseModel::*kMisuses[])() = {
        &MisuseModel::free_what_is_free,
        &MisuseModel::free_twice_in_a_row,
        &MisuseModel::free_the_inside,
        &MisuseModel::resize_the_inside,
        &MisuseModel::free_what_is_not_ours,
        &MisuseModel::free_between_two_grains,
        &MisuseModel::resize_what_is_free,
        &MisuseModel::delete_with_another_size,
        &MisuseModel::delete_with_another_alignment,
        &MisuseModel::write_beside,
        &MisuseModel::write_what_is_free,
    };
    const std::size_t which = below(std::size(kMisuses));
    SCOPED_TRACE("misuse " + std::to_string(which) + " of this list");
    (this->*kMisuses[which])();
  }

  bool is_auto_over_ = false;
  std::vector<Object> live_;
  std::vector<Object> freed_;
  TestThread threads_[3] = {TestThread(malloc), TestThread(malloc), TestThread(malloc)};
};

INSTANTIATE_TEST_SUITE_P(Checks, MisuseModel,
                         ::testing::Values(Checks::kBasic, Checks::kFrees, Checks::kFull,
                                           Checks::kAuto));

TEST_P(MisuseModel, EveryMisuseIsFoundAtItsMomentAndNothingElseIs) {
  for (int misuses = 0; misuses < 40 && !HasFailure(); ++misuses) {
    if (GetParam() == Checks::kAuto && misuses == 20) end_auto();
    for (int i = 0; i < 200 && !HasFatalFailure(); ++i) step();
    if (below(4) == 0) engine.release_all();
    misuse();
  }
  free_everything();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
