#pragma once

#include <cstdint>
#include <string_view>

#include "base/text_sink.h"

namespace strata {

/// Writes one JSON document to a sink, a member at a time. It adds commas and quotes; the caller
/// does the nesting. No allocation; its only state is whether a comma is due.
/// \threads  One at a time.
class JsonWriter {
 public:
  explicit JsonWriter(TextSink& sink) noexcept : sink_(sink) {}

  /// Inside an object every value has a name; inside an array, and at the top, none.
  JsonWriter& begin_object(std::string_view name = {}) noexcept { return begin(name, '{'); }
  JsonWriter& end_object() noexcept { return end('}'); }
  JsonWriter& begin_array(std::string_view name = {}) noexcept { return begin(name, '['); }
  JsonWriter& end_array() noexcept { return end(']'); }
  JsonWriter& number(std::string_view name, std::uint64_t value) noexcept;
  JsonWriter& text(std::string_view name, std::string_view value) noexcept;

 private:
  JsonWriter& begin(std::string_view name, char bracket) noexcept;
  JsonWriter& end(char bracket) noexcept;
  void begin_value(std::string_view name) noexcept;
  void quote(std::string_view text) noexcept;

  TextSink& sink_;
  bool needs_comma_ = false;
};

}  // namespace strata
