#include "os/frame_rule.h"

#include <cstring>

namespace strata::os {
namespace {

// Derived: the numbers that the processor's ABI gives its registers in unwind tables.
#if defined(__x86_64__)
constexpr std::uint64_t kFramePointer = 6;
constexpr std::uint64_t kStackPointer = 7;
constexpr std::uint64_t kReturnAddress = 16;
#elif defined(__aarch64__)
constexpr std::uint64_t kFramePointer = 29;
constexpr std::uint64_t kStackPointer = 31;
constexpr std::uint64_t kReturnAddress = 30;
#else
constexpr std::uint64_t kFramePointer = ~0u;
constexpr std::uint64_t kStackPointer = ~0u;
constexpr std::uint64_t kReturnAddress = ~0u;
#endif

/// Reads a table from front to back. Once it is read beyond its end, or not understood, it is bad
/// for good, and empty.
class Reader {
 public:
  Reader(const unsigned char* begin, const unsigned char* end) noexcept : at_(begin), end_(end) {}

  bool is_good() const noexcept { return is_good_; }
  bool is_empty() const noexcept { return at_ == end_; }
  const unsigned char* at() const noexcept { return at_; }
  void fail() noexcept {
    is_good_ = false;
    at_ = end_;
  }

  void skip(std::uint64_t bytes) noexcept {
    if (bytes > static_cast<std::uint64_t>(end_ - at_)) return fail();
    at_ += bytes;
  }
  template <typename T>
  T take() noexcept {
    T value{};
    if (sizeof value > static_cast<std::size_t>(end_ - at_)) {
      fail();
      return value;
    }
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t take_unsigned() noexcept { return take_leb(false); }
  std::int64_t take_signed() noexcept { return static_cast<std::int64_t>(take_leb(true)); }

  /// An address in one of the encodings of exception frames (DW_EH_PE_…), any of them.
  void skip_pointer(std::uint8_t encoding) noexcept {
    constexpr std::uint8_t kOmitted = 0xff;
    constexpr std::uint8_t kAligned = 0x50;
    if (encoding == kOmitted) return;
    if (encoding == kAligned) return fail();
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return skip(8);
      case 0x02:
      case 0x0a:
        return skip(2);
      case 0x03:
      case 0x0b:
        return skip(4);
      case 0x01:
      case 0x09:
        take_unsigned();
        return;
      default:
        return fail();
    }
  }

 private:
  std::uint64_t take_leb(bool is_signed) noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) != 0) continue;
      if (is_signed && (byte & 0x40) != 0 && shift + 7 < 64)
        value |= ~std::uint64_t{0} << (shift + 7);
      return value;
    }
    fail();
    return 0;
  }

  const unsigned char* at_;
  const unsigned char* const end_;
  bool is_good_ = true;
};

/// Where a register of the caller is.
struct Saved {
  enum class How : std::uint8_t { kSame, kAtOffset, kUndefined, kElsewhere };
  How how = How::kSame;
  std::int64_t offset = 0;  // from the CFA
};

/// The table's row for one place of the function.
struct Row {
  enum class Cfa : std::uint8_t { kUnknown, kRegister, kSavedWord };
  Cfa cfa = Cfa::kUnknown;
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  Saved frame_pointer;
  Saved return_address;
  bool is_signed = false;

  void set(std::uint64_t number, Saved::How how, std::int64_t offset = 0) noexcept {
    if (number == kFramePointer) frame_pointer = {how, offset};
    if (number == kReturnAddress) return_address = {how, offset};
  }
  void restore(std::uint64_t number, const Row& initial) noexcept {
    if (number == kFramePointer) frame_pointer = initial.frame_pointer;
    if (number == kReturnAddress) return_address = initial.return_address;
  }
};

/// The common part of a compilation's functions (CIE).
struct Common {
  std::uint64_t code_unit = 1;
  std::int64_t data_unit = 1;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation = false;
  bool is_understood = false;
};

/// Runs a program of the table, up to one place.
class Program {
 public:
  Program(const Common& common, std::uintptr_t function, std::uintptr_t pc) noexcept
      : common_(common), at_(function), pc_(pc) {}

  Row row;

  /// \returns  False if it contains anything that we do not understand.
  bool run(Reader instructions, const Row& initial) noexcept {
    // What is said of instructions after the call is not true before it.
    while (!instructions.is_empty() && at_ < pc_) step(instructions, initial);
    return instructions.is_good();
  }

 private:
  // Chosen: compilers nest these once.
  static constexpr std::size_t kMostRemembered = 8;

  void step(Reader& in, const Row& initial) noexcept;
  void define_by_expression(Reader& in) noexcept;
  template <typename Number>
  std::int64_t scaled(Reader& in, Number factor) const noexcept {
    std::int64_t offset;
    if (!__builtin_mul_overflow(factor, common_.data_unit, &offset)) return offset;
    in.fail();
    return 0;
  }
  void advance(std::uint64_t units) noexcept { at_ += units * common_.code_unit; }

  const Common& common_;
  std::uintptr_t at_;
  const std::uintptr_t pc_;
  Row remembered_[kMostRemembered];
  std::size_t remembered_count_ = 0;
};

/// CFA = word at fp + offset, which is what compilers write for a realigned stack.
void Program::define_by_expression(Reader& in) noexcept {
  constexpr std::uint8_t kRegisterPlus = 0x70;  // DW_OP_breg0
  constexpr std::uint8_t kDereference = 0x06;   // DW_OP_deref
  const std::uint64_t bytes = in.take_unsigned();
  const unsigned char* const begin = in.at();
  in.skip(bytes);
  if (!in.is_good()) return;
  Reader expression(begin, in.at());
  row.cfa = Row::Cfa::kUnknown;
  if (expression.take<std::uint8_t>() != kRegisterPlus + kFramePointer) return;
  row.cfa_register = kFramePointer;
  row.cfa_offset = expression.take_signed();
  if (expression.take<std::uint8_t>() == kDereference && expression.is_good() &&
      expression.is_empty()) {
    row.cfa = Row::Cfa::kSavedWord;
  }
}

void Program::step(Reader& in, const Row& initial) noexcept {
  using How = Saved::How;
  const auto code = in.take<std::uint8_t>();
  const std::uint8_t low = code & 0x3f;
  switch (code >> 6) {
    case 1:  // DW_CFA_advance_loc
      return advance(low);
    case 2:  // DW_CFA_offset
      return row.set(low, How::kAtOffset, scaled(in, in.take_unsigned()));
    case 3:  // DW_CFA_restore
      return row.restore(low, initial);
    default:
      break;
  }
  std::uint64_t number;
  switch (code) {
    case 0x00:  // DW_CFA_nop
      return;
    case 0x02:  // DW_CFA_advance_loc1, 2, 4
      return advance(in.take<std::uint8_t>());
    case 0x03:
      return advance(in.take<std::uint16_t>());
    case 0x04:
      return advance(in.take<std::uint32_t>());
    case 0x05:  // DW_CFA_offset_extended
      number = in.take_unsigned();
      return row.set(number, How::kAtOffset, scaled(in, in.take_unsigned()));
    case 0x06:  // DW_CFA_restore_extended
      return row.restore(in.take_unsigned(), initial);
    case 0x07:  // DW_CFA_undefined
      return row.set(in.take_unsigned(), How::kUndefined);
    case 0x08:  // DW_CFA_same_value
      return row.set(in.take_unsigned(), How::kSame);
    case 0x09:  // DW_CFA_register
      number = in.take_unsigned();
      in.take_unsigned();
      return row.set(number, How::kElsewhere);
    case 0x0a:  // DW_CFA_remember_state
      if (remembered_count_ == kMostRemembered) return in.fail();
      remembered_[remembered_count_++] = row;
      return;
    case 0x0b:  // DW_CFA_restore_state
      if (remembered_count_ == 0) return in.fail();
      row = remembered_[--remembered_count_];
      return;
    case 0x0c:  // DW_CFA_def_cfa
      row.cfa = Row::Cfa::kRegister;
      row.cfa_register = in.take_unsigned();
      row.cfa_offset = static_cast<std::int64_t>(in.take_unsigned());
      return;
    case 0x0d:  // DW_CFA_def_cfa_register
      row.cfa = Row::Cfa::kRegister;
      row.cfa_register = in.take_unsigned();
      return;
    case 0x0e:  // DW_CFA_def_cfa_offset
      row.cfa_offset = static_cast<std::int64_t>(in.take_unsigned());
      return;
    case 0x0f:  // DW_CFA_def_cfa_expression
      return define_by_expression(in);
    case 0x10:  // DW_CFA_expression, DW_CFA_val_expression
    case 0x16:
      number = in.take_unsigned();
      in.skip(in.take_unsigned());
      return row.set(number, How::kElsewhere);
    case 0x11:  // DW_CFA_offset_extended_sf
      number = in.take_unsigned();
      return row.set(number, How::kAtOffset, scaled(in, in.take_signed()));
    case 0x12:  // DW_CFA_def_cfa_sf
      row.cfa = Row::Cfa::kRegister;
      row.cfa_register = in.take_unsigned();
      row.cfa_offset = scaled(in, in.take_signed());
      return;
    case 0x13:  // DW_CFA_def_cfa_offset_sf
      row.cfa_offset = scaled(in, in.take_signed());
      return;
#if defined(__aarch64__)
    case 0x2d:  // DW_CFA_AARCH64_negate_ra_state
      row.is_signed = !row.is_signed;
      return;
#endif
    case 0x2e:  // DW_CFA_GNU_args_size: for landing pads
      in.take_unsigned();
      return;
    default:
      return in.fail();
  }
}

/// Reads a CIE up to its instructions.
Common read_common(Reader& in) noexcept {
  Common common;
  const auto version = in.take<std::uint8_t>();
  if (version != 1 && version != 3) return common;
  const auto* const augmentation = reinterpret_cast<const char*>(in.at());
  while (in.is_good() && in.take<char>() != '\0') {
  }
  common.code_unit = in.take_unsigned();
  common.data_unit = in.take_signed();
  const std::uint64_t return_register = version == 1 ? in.take<std::uint8_t>() : in.take_unsigned();
  if (!in.is_good() || return_register != kReturnAddress) return common;
  const char* letter = augmentation;
  if (*letter == 'z') {
    common.has_augmentation = true;
    const std::uint64_t bytes = in.take_unsigned();
    const unsigned char* const begin = in.at();
    in.skip(bytes);
    if (!in.is_good()) return common;
    Reader data(begin, in.at());
    for (++letter; *letter != '\0'; ++letter) {
      if (*letter == 'R') {
        common.pointer_encoding = data.take<std::uint8_t>();
      } else if (*letter == 'P') {
        data.skip_pointer(data.take<std::uint8_t>());
      } else if (*letter == 'L') {
        data.take<std::uint8_t>();
      } else if (*letter != 'B') {  // B: signed with another key. S: a signal's frame
        return common;
      }
    }
    if (!data.is_good()) return common;
  } else if (*letter != '\0') {
    return common;
  }
  common.is_understood = true;
  return common;
}

/// Opens the entry at `entry`, after its length.
/// \returns  an empty one if the length is not 32 bits
Reader open_entry(const unsigned char* entry) noexcept {
  constexpr std::uint32_t kLongFormat = 0xffffffff;
  std::uint32_t bytes;
  std::memcpy(&bytes, entry, sizeof bytes);
  const unsigned char* const begin = entry + sizeof bytes;
  return {begin, bytes == kLongFormat ? begin : begin + bytes};
}

/// Converts an offset to words.
/// \returns  false if it is no multiple, or out of range
bool to_words(std::int64_t bytes, std::int16_t& words) noexcept {
  constexpr std::int64_t kWord = sizeof(std::uintptr_t);
  if (bytes % kWord != 0 || bytes / kWord > INT16_MAX || bytes / kWord < INT16_MIN) return false;
  words = static_cast<std::int16_t>(bytes / kWord);
  return true;
}

FrameRule rule_of(const Row& row) noexcept {
  using Kind = FrameRule::Kind;
  FrameRule rule;
  if (row.return_address.how == Saved::How::kUndefined) {
    rule.kind = Kind::kOutermost;
    return rule;
  }
  if (row.return_address.how != Saved::How::kAtOffset || row.return_address.offset >= 0) return {};
  if (!to_words(row.return_address.offset, rule.return_words)) return {};
  if (row.frame_pointer.how == Saved::How::kAtOffset) {
    if (row.frame_pointer.offset >= 0 || !to_words(row.frame_pointer.offset, rule.frame_words))
      return {};
  } else if (row.frame_pointer.how != Saved::How::kSame) {
    return {};
  }
  if (row.cfa == Row::Cfa::kUnknown || !to_words(row.cfa_offset, rule.cfa_words)) return {};
  rule.is_signed = row.is_signed;
  if (row.cfa == Row::Cfa::kSavedWord) {
    rule.kind = Kind::kFromSaved;
  } else if (row.cfa_register == kStackPointer) {
    rule.kind = Kind::kFromStack;
  } else if (row.cfa_register == kFramePointer) {
    rule.kind = Kind::kFromFrame;
  }
  return rule;
}

}  // namespace

FrameRule read_frame_rule(const void* entry, std::uintptr_t function, std::uintptr_t pc) noexcept {
  Reader own = open_entry(static_cast<const unsigned char*>(entry));
  const unsigned char* const id = own.at();
  const auto distance = own.take<std::int32_t>();
  if (!own.is_good()) return {};
  Reader shared = open_entry(id - distance);
  shared.take<std::int32_t>();
  const Common common = read_common(shared);
  if (!common.is_understood) return {};
  own.skip_pointer(common.pointer_encoding);
  own.skip_pointer(common.pointer_encoding & 0x0f);
  if (common.has_augmentation) own.skip(own.take_unsigned());
  if (!own.is_good()) return {};
  Program program(common, function, pc);
  if (!program.run(shared, {})) return {};
  const Row initial = program.row;
  if (!program.run(own, initial)) return {};
  return rule_of(program.row);
}

}  // namespace strata::os
