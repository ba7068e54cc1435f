#include "recorder/recording.h"

#include "os/clock.h"
#include "os/file.h"
#include "os/process.h"
#include "os/threads.h"
#include "os/wait.h"
#include "recorder/calls.h"
#include "recorder/system.h"
#include "recorder/text.h"

namespace strata::recorder {
namespace {

// Chosen: leaves time to write within the one second of calls that a killed program may lose.
constexpr std::uint64_t kFlushNs = 250'000'000;
constexpr std::uint64_t kMs = 1'000'000;

}  // namespace

constinit Recording g_recording;

void Recording::start(const char* allocator) noexcept {
  if (is_starting_.exchange(true, std::memory_order_acquire)) return;
  if (process_ == 0) process_ = os::process_id();
  if (process_ != os::process_id()) {  // a child that fork did not make; its parent has not begun
    is_starting_.store(false, std::memory_order_release);
    return;
  }
  settings_.read();
  if (settings_.file == nullptr || !take_memory() || !file_.open(settings_, process_, allocator)) {
    mode_.store(Mode::kOff, std::memory_order_relaxed);
    return;
  }
  clock_.prepare();
  if (!has_fork_handlers_) {
    has_fork_handlers_ = true;
    os::register_fork_handlers([] { g_recording.before_fork(); },
                               [] { g_recording.after_fork_in_parent(); },
                               [] { g_recording.after_fork_in_child(); });
  }
  started_ns_ = flushed_ns_ = monotonic_ns();
  if (is_process_ == nullptr) {
    is_process_ = static_cast<std::uint32_t*>(map_memory_of_process(sizeof *is_process_));
    if (is_process_ != nullptr) *is_process_ = 1;
  }
  thread_.announce();
  // Stays off until the writer turns it on, in case it begins later.
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  if (settings_.after_ms == 0 && settings_.signal == 0) turn_on();
  const int file = file_.descriptor();
  const bool has_thread = thread_.start(do_round, this, file);
  os::close_file(file);  // the writer has its own copy
  if (has_thread) return;
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  say("strata record: the kernel refused a thread for the recorder; the program runs unrecorded\n");
}

/// Maps all that does not grow with the program, in one piece: nothing is taken from a program that
/// cannot spare all of it. Most is never touched.
bool Recording::take_memory() noexcept {
  if (file_.has_memory()) return true;  // the parent of this process took it
  constexpr std::size_t kOfStacks = StackTree::kBytes + Modules::kBytes;
  static_assert(StreamTable::kBytes % 16 == 0 && Merger::kBytes % 16 == 0 &&
                    StackTree::kBytes % 16 == 0 && Modules::kBytes % 16 == 0 &&
                    alignof(trace::Writer) <= 16,
                "each piece begins where the last one ends");
  const bool has_stacks = settings_.stack_frames != 0;
  const std::size_t bytes =
      StreamTable::kBytes + Merger::kBytes + (has_stacks ? kOfStacks : 0) + TraceFile::kBytes;
  auto* memory = static_cast<char*>(map_memory(bytes));
  if (memory == nullptr) {
    say(has_stacks
            ? "strata record: the recorder needs 112 MiB of address space (10 with --stacks off), "
              "and there is less; the program runs unrecorded\n"
            : "strata record: the recorder needs 10 MiB of address space, and there is less; the "
              "program runs unrecorded\n");
    return false;
  }
  const auto take = [&](std::size_t piece) {
    memory += piece;
    return memory - piece;
  };
  char* const streams = take(StreamTable::kBytes);
  char* const heads = take(Merger::kBytes);
  char* modules = nullptr;
  if (has_stacks) {
    stacks_.use(take(StackTree::kBytes));
    modules = take(Modules::kBytes);
  }
  file_.use(take(TraceFile::kBytes));
  merger_.use(heads, modules, file_.writer());
  streams_.use(streams);
  return true;
}

void Recording::toggle() noexcept {
  toggles_.fetch_add(1, std::memory_order_relaxed);
  thread_.wake();
}

void Recording::ask(WriterThread::Request request) noexcept {
  // A child of vfork shares our memory; the parent's recording goes on.
  if (thread_.is_running() && os::process_id() == process_) thread_.ask(request);
}

bool Recording::leave_stray_copy() noexcept {
  if (is_process_ == nullptr || *is_process_ != 0) return false;
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  thread_.forget();
  return true;
}

Stream* Recording::take_stream() noexcept {
  if (leave_stray_copy()) return nullptr;
  for (;;) {
    const std::uint32_t seen = streams_.returns().load(std::memory_order_acquire);
    Stream* const stream = streams_.take_stream(os::thread_id());
    if (stream != nullptr || !is_on()) return stream;
    if (must_drop()) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    wait_for_return(seen);
  }
}

bool Recording::make_room(Stream& stream) noexcept {
  if (leave_stray_copy()) return false;
  for (;;) {
    const std::uint32_t seen = streams_.returns().load(std::memory_order_acquire);
    if (streams_.add_chunk(stream)) {
      if (streams_.has_much()) thread_.wake();
      return true;
    }
    if (!is_on() || must_drop()) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    wait_for_return(seen);
  }
}

/// Whether a call that has no place is lost, instead of waiting for one.
bool Recording::must_drop() noexcept {
  if (settings_.drops) return true;
  if (!streams_.is_out_of_memory()) return false;
  if (!has_said_drops_.exchange(true, std::memory_order_relaxed))
    say("strata record: there is no memory left for the recorder; calls are lost\n");
  return true;
}

void Recording::wait_for_return(std::uint32_t seen) noexcept {
  thread_.wake();
  os::wait_on(os::futex_word(streams_.returns()), seen, kMs);
  if (!thread_.is_running()) mode_.store(Mode::kOff, std::memory_order_relaxed);
}

void Recording::before_fork() noexcept {
  if (leave_stray_copy()) return;
  thread_.hold();
  streams_.lock().lock();
  stacks_.lock().lock();
}

void Recording::after_fork_in_parent() noexcept {
  stacks_.lock().unlock();
  streams_.lock().unlock();
  thread_.release();
}

void Recording::after_fork_in_child() noexcept {
  after_fork_in_parent();
  if (is_process_ != nullptr) *is_process_ = 1;
  process_ = os::process_id();
  if (!thread_.is_running()) return;  // the parent has not begun, or is a stray copy, which is off
  streams_.forget_all();
  t_state.stream = nullptr;
  t_state.used = t_state.most = 0;
  merger_.forget_all();
  thread_.forget();
  reported_drops_ = 0;
  dropped_.store(0, std::memory_order_relaxed);
  toggles_.store(0, std::memory_order_relaxed);
  has_begun_ = false;
  mode_.store(Mode::kNotStarted, std::memory_order_relaxed);
  is_starting_.store(false, std::memory_order_release);
}

std::uint64_t Recording::do_round(void* self, std::uint32_t requests) noexcept {
  auto& recording = *static_cast<Recording*>(self);
  recording.work(requests);
  return recording.file_.is_open() ? recording.sleep_ns() : WriterThread::kNoFurtherRound;
}

/// Merges what is there, and closes the file if the recording is over.
void Recording::work(std::uint32_t requests) noexcept {
  const std::uint32_t toggles = toggles_.load(std::memory_order_relaxed);
  if (!has_begun_ && is_due(toggles)) turn_on();
  const bool is_end = (requests & WriterThread::kEnd) != 0;
  const bool must_flush = (requests & WriterThread::kFlush) != 0;
  if (must_flush) merger_.settle();
  merger_.drain();
  if ((requests & WriterThread::kNameStacks) != 0) merger_.write_stacks();
  const std::uint64_t now = monotonic_ns();
  const bool is_signalled_off = settings_.signal != 0 && toggles > 1;
  const bool is_over = has_begun_ && (is_time_over() || is_signalled_off);
  if (is_end || is_over) {
    finish(is_end ? "exit" : is_signalled_off ? "signal" : "time");
  } else if (must_flush || now - flushed_ns_ >= kFlushNs) {
    flushed_ns_ = now;
    merger_.write_names();
    report_drops();
    file_.writer().flush();
    merger_.collect_ended_threads(process_);
    if (thread_.is_last_thread()) finish("exit");
  }
  if (!file_.writer().has_failed()) return;
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  file_.give_up();
}

bool Recording::is_due(std::uint32_t toggles) const noexcept {
  if (settings_.signal != 0) return toggles > 0;
  return monotonic_ns() - started_ns_ >= settings_.after_ms * kMs;
}

bool Recording::is_time_over() const noexcept {
  return settings_.for_ms != 0 && monotonic_ns() - begun_ns_ >= settings_.for_ms * kMs;
}

void Recording::turn_on() noexcept {
  has_begun_ = true;
  begun_ns_ = monotonic_ns();
  merger_.begin();
  mode_.store(Mode::kOn, std::memory_order_release);
}

void Recording::finish(const char* reason) noexcept {
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  merger_.settle();
  merger_.drain();
  merger_.write_names();
  report_drops();
  trace::Writer& writer = file_.writer();
  Text text;
  text.property("reason", reason).property("events", writer.events());
  text.property("objects", writer.next_object());
  text.property("dropped", reported_drops_);
  text.property("writer_cpu_ns", os::thread_cpu_ns());
  text.property("lasted_ns", has_begun_ ? merger_.ns_since_beginning() : 0);
  file_.end(text.view());
}

void Recording::report_drops() noexcept {
  const std::uint64_t dropped = dropped_.load(std::memory_order_relaxed);
  if (dropped <= reported_drops_) return;
  file_.writer().add_dropped(dropped - reported_drops_);
  reported_drops_ = dropped;
}

std::uint64_t Recording::sleep_ns() const noexcept {
  const bool watches_time = !has_begun_ || settings_.for_ms != 0;
  return watches_time ? WriterThread::kLongestSleepNs / 20 : WriterThread::kLongestSleepNs;
}

}  // namespace strata::recorder
