#include "shared/trace/writer.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

namespace strata::trace {
namespace {

// Chosen: the program waits when it outpaces the writer. Level 1 saves a sixth of the bytes but
// takes longer.
constexpr int kLevel = -1;

/// Returns how much of a text to put into a block: whole lines, unless one line alone is too long.
std::size_t part_for_a_block(std::string_view text) noexcept {
  if (text.size() <= kColumnBytes) return text.size();
  const std::size_t last_end = text.rfind('\n', kColumnBytes - 1);
  return last_end == std::string_view::npos ? kColumnBytes : last_end + 1;
}

}  // namespace

bool Writer::begin() noexcept {
  auto* bytes = column_bytes_;
  for (Column& column : columns_) column.begin_at(*bytes++);
  for (Column& column : stack_columns_) column.begin_at(*bytes++);
  begin_block();
  compressor_ = ZSTD_initStaticCCtx(compressor_memory_, sizeof compressor_memory_);
  has_failed_ = compressor_ == nullptr;
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof kFileMagic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.tick_ns = kTickNs;
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  return put_out(&header, sizeof header);
}

void Writer::begin_block() noexcept {
  for (Column& column : columns_) column.clear();
  first_event_ = events();
  event_count_ = 0;
  block_object_ = next_object_;
  block_tick_ = tick_;
  expected_.begin(block_object_, block_tick_);
  surely_fit_ = kColumnBytes / Column::kMostOfOne;
}

void Writer::put_tick(std::uint64_t time_ns) noexcept {
  const std::uint64_t tick = time_ns / kTickNs;
  columns_[kTimes].put(tick - tick_);
  tick_ = tick;
  next_tick_ns_ = (tick + 1) * kTickNs;
}

/// Recomputes how many more events surely fit; flushes if none do.
bool Writer::make_room() noexcept {
  std::uint32_t room = kMostEvents - event_count_;
  for (const Column& column : columns_) room = std::min(room, column.room());
  surely_fit_ = event_count_ + room;
  return room == 0 ? flush() : !has_failed_;
}

std::uint32_t Writer::add_stack(StackNode node) noexcept {
  if (next_node_ == ~std::uint32_t{0}) return 0;
  stack_columns_[0].put(next_node_ - node.parent);
  stack_columns_[1].put(zigzag(static_cast<std::int64_t>(node.return_address - last_address_)));
  last_address_ = node.return_address;
  ++node_count_;
  const std::uint32_t number = next_node_++;
  if (node_count_ == kMostNodes || stack_columns_[1].room() == 0) flush_stacks();
  return has_failed_ ? 0 : number;
}

bool Writer::add_text(BlockKind kind, std::string_view text) noexcept {
  if (!flush()) return false;
  BlockHeader header{};
  header.kind = static_cast<std::uint32_t>(kind);
  header.first_number = events();
  do {
    const Bytes column{text.data(), part_for_a_block(text)};
    write_block(header, &column, kTextColumns);
    text.remove_prefix(column.count);
  } while (!text.empty());
  return !has_failed_;
}

bool Writer::add_dropped(std::uint64_t events) noexcept {
  char text[32] = "events=";
  char* end = std::to_chars(text + std::strlen(text), std::end(text), events).ptr;
  *end++ = '\n';
  return add_text(BlockKind::kDropped, {text, end});
}

bool Writer::end(std::string_view text) noexcept { return add_text(BlockKind::kEnd, text); }

/// Writes the stacks first, because the events refer to them.
bool Writer::flush() noexcept {
  if (event_count_ == 0) return flush_stacks();
  BlockHeader header{};
  header.kind = static_cast<std::uint32_t>(BlockKind::kEvents);
  header.count = event_count_;
  header.first_number = first_event_;
  header.first_object = block_object_;
  header.first_tick = block_tick_;
  header.last_tick = tick_;
  Bytes columns[kEventColumns];
  for (unsigned i = 0; i < kEventColumns; ++i) {
    columns[i] = {columns_[i].bytes(), columns_[i].size(), &rests_[i]};
  }
  const bool is_written = flush_stacks() && write_block(header, columns, kEventColumns);
  begin_block();
  return is_written;
}

bool Writer::flush_stacks() noexcept {
  if (node_count_ == 0) return !has_failed_;
  BlockHeader header{};
  header.kind = static_cast<std::uint32_t>(BlockKind::kStacks);
  header.count = node_count_;
  header.first_number = next_node_ - node_count_;
  Bytes columns[kStackColumns];
  for (unsigned i = 0; i < kStackColumns; ++i) {
    columns[i] = {stack_columns_[i].bytes(), stack_columns_[i].size()};
  }
  const bool is_written = write_block(header, columns, kStackColumns);
  node_count_ = 0;
  last_address_ = 0;
  for (Column& column : stack_columns_) column.clear();
  return is_written;
}

/// Writes header and body with one write(), so that a program that ends in between is less likely
/// to leave a truncated block.
bool Writer::write_block(BlockHeader header, const Bytes* columns, unsigned column_count) noexcept {
  if (has_failed_) return false;
  auto* const sizes = body_ + sizeof header;
  std::size_t used = sizeof header + column_count * sizeof(ColumnSize);
  for (unsigned i = 0; i < column_count; ++i) {
    ColumnSize size{static_cast<std::uint32_t>(columns[i].count), 0};
    size.stored_bytes =
        static_cast<std::uint32_t>(store(columns[i], body_ + used, sizeof body_ - used));
    std::memcpy(sizes + i * sizeof size, &size, sizeof size);
    used += size.stored_bytes;
  }
  header.magic = kBlockMagic;
  header.stored_bytes = static_cast<std::uint32_t>(used - sizeof header);
  header.body_checksum = checksum(body_ + sizeof header, header.stored_bytes);
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  std::memcpy(body_, &header, sizeof header);
  return put_out(body_, used);
}

/// \returns  The column's size in `out`; its own size if compression does not help.
std::size_t Writer::store(Bytes column, unsigned char* out, std::size_t room) noexcept {
  if (column.count == 0) return 0;
  if (column.rests == nullptr || *column.rests == 0) {
    const std::size_t stored = ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(compressor_), out, room,
                                                 column.at, column.count, kLevel);
    const bool is_stored = ZSTD_isError(stored) == 0 && stored < column.count;
    const bool is_random = !is_stored || stored > column.count - column.count / 8;
    if (is_random && column.rests != nullptr && column.count >= kWorthARest) {
      *column.rests = kRests;
    }
    if (is_stored) return stored;
  } else {
    --*column.rests;
  }
  std::memcpy(out, column.at, column.count);
  return column.count;
}

bool Writer::put_out(const void* bytes, std::size_t count) noexcept {
  if (!has_failed_) has_failed_ = !write_(context_, bytes, count);
  return !has_failed_;
}

}  // namespace strata::trace
