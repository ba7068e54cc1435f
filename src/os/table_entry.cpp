#include "os/table_entry.h"

#include <dlfcn.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE
#include <algorithm>
#include <cstddef>
#include <cstring>

// Weak: older C libraries lack it.
#pragma weak _dl_find_object

namespace strata::os {
namespace {

/// What every linker writes. Offsets are relative to where they stand, those of the index to the
/// header's beginning.
struct Header {
  std::uint8_t version;         // 1
  std::uint8_t table_encoding;  // kRelative
  std::uint8_t count_encoding;  // kPlain
  std::uint8_t index_encoding;  // kToHeader
  std::int32_t table;
  std::uint32_t count;
};
constexpr std::uint8_t kRelative = 0x1b;
constexpr std::uint8_t kPlain = 0x03;
constexpr std::uint8_t kToHeader = 0x3b;

struct IndexLine {
  std::int32_t function;
  std::int32_t entry;
};

/// The start of an entry whose addresses are 4 bytes long.
struct EntryStart {
  std::uint32_t length;
  std::uint32_t to_common;
  std::int32_t function;  // relative to where it stands
  std::uint32_t code_bytes;
};

bool contains(const char* entry, std::uintptr_t function, std::uintptr_t instruction) noexcept {
  EntryStart start;
  std::memcpy(&start, entry, sizeof start);
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(entry) +
                               offsetof(EntryStart, function) +
                               static_cast<std::uintptr_t>(std::intptr_t{start.function});
  return begin == function && instruction - function < start.code_bytes;
}

}  // namespace

bool can_find_table_entries() noexcept { return &_dl_find_object != nullptr; }

const void* find_file(const void* address) noexcept {
  dl_find_object file;
  return _dl_find_object(const_cast<void*>(address), &file) == 0 ? file.dlfo_map_start : nullptr;
}

std::size_t find_file_bytes(const void* address) noexcept {
  dl_find_object file;
  if (_dl_find_object(const_cast<void*>(address), &file) != 0) return 0;
  return reinterpret_cast<std::uintptr_t>(file.dlfo_map_end) -
         reinterpret_cast<std::uintptr_t>(file.dlfo_map_start);
}

TableEntry find_table_entry(std::uintptr_t instruction) noexcept {
  dl_find_object file;
  if (_dl_find_object(reinterpret_cast<void*>(instruction), &file) != 0) return {};
  const auto* const start = static_cast<const char*>(file.dlfo_eh_frame);
  if (start == nullptr) return {};
  Header header;
  std::memcpy(&header, start, sizeof header);
  if (header.version != 1 || header.table_encoding != kRelative ||
      header.count_encoding != kPlain || header.index_encoding != kToHeader) {
    return {};
  }
  const auto* const lines = reinterpret_cast<const IndexLine*>(start + sizeof header);
  const auto offset =
      static_cast<std::intptr_t>(instruction - reinterpret_cast<std::uintptr_t>(start));
  const IndexLine* const after =
      std::upper_bound(lines, lines + header.count, offset,
                       [](std::intptr_t at, const IndexLine& line) { return at < line.function; });
  if (after == lines) return {};
  const char* const entry = start + after[-1].entry;
  const auto function = reinterpret_cast<std::uintptr_t>(start + after[-1].function);
  return contains(entry, function, instruction) ? TableEntry{entry, function} : TableEntry{};
}

}  // namespace strata::os

#else

namespace strata::os {

bool can_find_table_entries() noexcept { return false; }
const void* find_file(const void*) noexcept { return nullptr; }
std::size_t find_file_bytes(const void*) noexcept { return 0; }
TableEntry find_table_entry(std::uintptr_t) noexcept { return {}; }

}  // namespace strata::os

#endif
