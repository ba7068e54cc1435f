#include "os/frame_rule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace strata::os {
namespace {

#if defined(__x86_64__)
/// A table for one function of 16 bytes at 0x1000: a common entry, whose offsets are multiples of
/// -8 and whose CFA is sp + 8 with the return address below it, and the function's own entry.
class Table {
 public:
  explicit Table(std::initializer_list<std::uint8_t> instructions) {
    put({0, 0, 0, 0});                             // a common entry
    put({1, 0, 1, 0x78, 16});                      // version 1, no letters, units 1 and -8
    put({0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0});  // DW_CFA_def_cfa, DW_CFA_offset, nops
    own_ = close(0);
    put({static_cast<std::uint8_t>(own_ + 4), 0, 0, 0});
    put({0, 0x10, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0});
    put(instructions);
    close(own_);
  }

  FrameRule rule() const { return read_frame_rule(bytes_.data() + own_, 0x1000, 0x1008); }

 private:
  void put(std::initializer_list<std::uint8_t> bytes) {
    if (is_closed_) bytes_.insert(bytes_.end(), 4, 0);
    is_closed_ = false;
    bytes_.insert(bytes_.end(), bytes);
  }
  std::size_t close(std::size_t entry) {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - entry - 4);
    std::memcpy(bytes_.data() + entry, &length, sizeof length);
    is_closed_ = true;
    return bytes_.size();
  }

  std::vector<std::uint8_t> bytes_;
  std::size_t own_ = 0;
  bool is_closed_ = true;
};

TEST(FrameRule, SaysWhereTheTableHasTheCaller) {
  const FrameRule rule = Table({0x0e, 32, 0x86, 2}).rule();  // CFA = sp + 32, fp at CFA - 16
  EXPECT_EQ(rule.kind, FrameRule::Kind::kFromStack);
  EXPECT_EQ(rule.cfa_words, 4);
  EXPECT_EQ(rule.return_words, -1);
  EXPECT_EQ(rule.frame_words, -2);
}

TEST(FrameRule, KnowsNothingWhereAnOffsetOverflows) {
  // The frame pointer is at CFA - 8 * (2^61 + 1): cut to 64 bits, that would be CFA - 8.
  const FrameRule rule =
      Table({0x05, 6, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20}).rule();
  EXPECT_EQ(rule.kind, FrameRule::Kind::kUnknown);
}
#endif

}  // namespace
}  // namespace strata::os
