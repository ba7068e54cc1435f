#include <strata/page_arena.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "os/fake_page_source.h"

namespace strata {
namespace {

const std::size_t kPage = os::page_bytes();

TEST(PageArena, HandsOutItsPagesInOrderAndThenNothing) {
  PageArena arena(4 * kPage);
  EXPECT_EQ(arena.page_size(), kPage);
  EXPECT_EQ(arena.total_pages(), 4u);
  char* previous = nullptr;
  for (std::size_t i = 1; i <= 4; ++i) {
    auto* page = static_cast<char*>(arena.allocate_page());
    ASSERT_NE(page, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page) % kPage, 0u);
    if (previous != nullptr) {
      EXPECT_EQ(page, previous + kPage);
    }
    EXPECT_EQ(arena.pages_allocated(), i);
    std::memset(page, 0x5a, kPage);
    previous = page;
  }
  EXPECT_EQ(arena.allocate_page(), nullptr);
  EXPECT_EQ(arena.available_pages(), 0u);
}

TEST(PageArena, HandsOutSeveralPagesSideBySideOrNoneOfThem) {
  PageArena arena(8 * kPage);
  auto* first = static_cast<char*>(arena.allocate_pages(3));
  auto* second = static_cast<char*>(arena.allocate_pages(4));
  EXPECT_EQ(second, first + 3 * kPage);
  EXPECT_EQ(arena.allocate_pages(2), nullptr);
  EXPECT_EQ(arena.pages_allocated(), 7u);
  EXPECT_EQ(arena.allocate_pages(0), nullptr);
  EXPECT_EQ(arena.allocate_pages(SIZE_MAX / kPage), nullptr);
  EXPECT_NE(arena.allocate_pages(1), nullptr);
}

TEST(PageArena, StartsAgainAtTheFirstPageAfterReset) {
  PageArena arena(2 * kPage);
  auto* first = static_cast<char*>(arena.allocate_page());
  first[0] = 'x';
  arena.allocate_page();
  arena.reset();
  EXPECT_EQ(arena.pages_allocated(), 0u);
  EXPECT_EQ(arena.allocate_page(), first);
  EXPECT_EQ(first[0], 'x') << "reset() promises that contents stay until written";
}

TEST(PageArena, GivesIdleMemoryBackAndReadsItAsZeroLater) {
  os::FakePageSource pages;
  PageArena arena(4 * kPage, 0, pages);
  auto* first = static_cast<char*>(arena.allocate_pages(4));
  std::memset(first, 0x5a, 4 * kPage);
  EXPECT_TRUE(arena.release_idle());
  EXPECT_EQ(pages.decommitted_bytes(), 0u) << "no page is idle";
  arena.reset();
  arena.allocate_page();
  EXPECT_TRUE(arena.release_idle());
  EXPECT_EQ(pages.decommitted_bytes(), 3 * kPage);
  EXPECT_EQ(first[0], 0x5a);
  EXPECT_EQ(first[kPage], 0);
}

TEST(PageArena, AlignsHugePagesToTheirSize) {
  constexpr std::size_t kHuge = 2u << 20;
  PageArena arena(2 * kHuge, kHuge);
  EXPECT_EQ(arena.page_size(), kHuge);
  EXPECT_EQ(arena.total_pages(), 2u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.allocate_page()) % kHuge, 0u);
}

TEST(PageArena, KnowsWhichAddressesAreItsOwn) {
  PageArena arena(2 * kPage);
  auto* first = static_cast<char*>(arena.allocate_page());
  EXPECT_TRUE(arena.owns(first));
  EXPECT_TRUE(arena.owns(first + 2 * kPage - 1)) << "handed out or not";
  EXPECT_FALSE(arena.owns(first + 2 * kPage));
  EXPECT_FALSE(arena.owns(first - 1));
  EXPECT_FALSE(arena.owns(nullptr));
}

TEST(PageArena, ReservesFarMoreThanTheMachineHasWithoutTouchingIt) {
  PageArena arena(std::size_t{64} << 30);
  auto* page = static_cast<char*>(arena.allocate_page());
  page[0] = 1;
  EXPECT_EQ(arena.total_pages(), (std::size_t{64} << 30) / kPage);
}

TEST(PageArena, GivesItsRegionBackOnceHoweverOftenItMoves) {
  os::FakePageSource pages;
  {
    PageArena first(2 * kPage, 0, pages);
    void* page = first.allocate_page();
    PageArena second(std::move(first));
    EXPECT_TRUE(second.owns(page));
    EXPECT_EQ(second.pages_allocated(), 1u);
    EXPECT_EQ(first.allocate_page(), nullptr);  // NOLINT: a moved-from arena is empty
    EXPECT_EQ(first.total_pages(), 0u);
    PageArena third(kPage, 0, pages);
    third = std::move(second);
    EXPECT_TRUE(third.owns(page));
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
  EXPECT_EQ(pages.calls(os::FakePageSource::kUnmap), 2u);
}

TEST(PageArena, TakesEverythingOfAnotherWhenItIsAssigned) {
  os::FakePageSource pages, others;
  {
    PageArena arena(2 * kPage, 0, pages);
    arena = PageArena(8 * kPage, 2 * kPage, others);
    EXPECT_EQ(pages.mapped_bytes(), 0u);
    EXPECT_EQ(arena.page_size(), 2 * kPage);
    EXPECT_EQ(arena.total_pages(), 4u);
  }
  EXPECT_EQ(others.mapped_bytes(), 0u);
}

TEST(PageArena, AsksForHugePagesOnlyWhereItsOwnAreLargerThanTheSystems) {
  os::FakePageSource pages;
  PageArena usual(2 * kPage, kPage, pages);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseHuge), 0u);
  PageArena larger(4 * kPage, 2 * kPage, pages);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseHuge), 1u);
}

struct Refusal {
  std::size_t bytes;
  std::size_t page_bytes;
  const char* sentence;
};

TEST(PageArena, RefusesSizesItCannotServeWithOneSentenceEach) {
  const Refusal refusals[] = {
      {0, 0, "PageArena: the size is 0"},
      {kPage + 1, 0, "PageArena: the size is not a multiple of the page size"},
      {3 * kPage, 2 * kPage, "PageArena: the size is not a multiple of the page size"},
      {kPage, 3, "PageArena: the page size is not a power of two of at least an OS page"},
      {kPage, kPage / 2, "PageArena: the page size is not a power of two of at least an OS page"},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.sentence);
    const char* reason = nullptr;
    EXPECT_FALSE(PageArena::try_create(refusal.bytes, refusal.page_bytes, &reason).has_value());
    EXPECT_STREQ(reason, refusal.sentence);
    try {
      PageArena arena(refusal.bytes, refusal.page_bytes);
      ADD_FAILURE() << "was constructed";
    } catch (const std::invalid_argument& error) {
      EXPECT_STREQ(error.what(), refusal.sentence);
    }
  }
}

TEST(PageArena, ReportsAKernelThatRefuses) {
  os::FakePageSource pages;
  pages.refuse_call(1);
  EXPECT_THAT([&] { PageArena(kPage, 0, pages); },
              testing::ThrowsMessage<std::bad_alloc>(
                  testing::StrEq("PageArena: the kernel refuses a region of this size")));
  const char* reason = nullptr;
  pages.refuse_call(1);
  EXPECT_FALSE(PageArena::try_create(kPage, 0, &reason, &pages).has_value());
  EXPECT_STREQ(reason, "PageArena: the kernel refuses a region of this size");
  EXPECT_TRUE(PageArena::try_create(kPage, 0, &reason, &pages).has_value());
  EXPECT_EQ(reason, nullptr);
}

}  // namespace
}  // namespace strata
