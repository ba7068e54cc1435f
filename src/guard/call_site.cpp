#include "guard/call_site.h"

#include "base/text_writer.h"
#include "os/output.h"
#include "os/stack.h"
#include "os/symbol.h"
#include "os/threads.h"

namespace strata {

CallSite CallSite::here() noexcept {
  CallSite site;
  site.thread = os::thread_id();
  site.count = static_cast<std::uint32_t>(os::capture_stack(site.frames, kMaxFrames));
  return site;
}

CallSite CallSite::of_report() noexcept {
  os::prepare_walks();
  return here();
}

CallSite CallSite::of_fault(const os::Fault& fault) noexcept {
  os::prepare_walks();
  CallSite site;
  site.thread = os::thread_id();
  site.count = static_cast<std::uint32_t>(
      os::capture_stack_at({fault.code, fault.sp, fault.fp}, site.frames, kMaxFrames));
  return site;
}

void CallSite::print(const char* what) const noexcept {
  TextWriter line;
  line.text("strata: ").text(what).text(" by thread ").decimal(thread).text("\n");
  os::write_stderr(line.view());
  for (std::uint32_t i = 0; i < count; ++i) {
    // What was captured is where a call returns to; the call itself is before it.
    const auto call = frames[i] - 1;
    os::CodePlace place;
    line.clear();
    line.text("strata:   #").decimal(i).text(i < 10 ? "  " : " ");
    if (!os::find_code(reinterpret_cast<const void*>(call), place)) {
      line.hex(frames[i]);
    } else {
      line.cut_name(place.module).text("+").hex(place.offset);
      if (place.function != nullptr)
        line.text(" ").cut_name(place.function).text("+").hex(place.function_offset);
    }
    os::write_stderr(line.text("\n").view());
  }
}

}  // namespace strata
