#include "span/span_source.h"

#include <cstring>

#include "base/fatal.h"

namespace strata {

Span* SpanSource::create(unsigned size_class) noexcept {
  Span* span = pages_.allocate(span_pages_of(size_class));
  if (span == nullptr) return nullptr;
  const auto object_bytes = static_cast<std::uint32_t>(SizeClassMap::bytes_of(size_class));
  span->object_bytes = object_bytes;
  span->reciprocal =
      static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + object_bytes - 1) / object_bytes);
  span->object_count = static_cast<std::uint32_t>(span->bytes() / object_bytes);
  span->free_count = span->object_count;
  span->first_word = 0;
  const bool is_fresh = span->is_zero && Span::tracks_fresh(object_bytes);
  span->fresh_objects =
      is_fresh ? static_cast<std::uint32_t>((std::uint64_t{1} << span->object_count) - 1) : 0;
  span->size_class = static_cast<std::uint8_t>(size_class);
  const std::size_t words = span->bitmap_words();
  span->free_bits = static_cast<std::uint64_t*>(metadata_.allocate(words * sizeof(std::uint64_t)));
  if (span->free_bits == nullptr) {
    pages_.deallocate(*span);
    return nullptr;
  }
  std::memset(span->free_bits, 0xff, words * sizeof(std::uint64_t));
  if (span->object_count % 64 != 0) {
    span->free_bits[words - 1] = (std::uint64_t{1} << span->object_count % 64) - 1;
  }
  map_.set_class(*span, size_class);
  return span;
}

void SpanSource::destroy(Span& span) noexcept {
  STRATA_DCHECK(span.free_count == span.object_count);
  map_.set_class(span, 0);
  metadata_.deallocate(span.free_bits, span.bitmap_words() * sizeof(std::uint64_t));
  pages_.deallocate(span);
}

}  // namespace strata
