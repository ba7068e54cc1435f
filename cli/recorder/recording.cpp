#include "recorder/recording.h"

#include <cerrno>
#include <new>

#include "os/clock.h"
#include "os/errors.h"
#include "os/file.h"
#include "os/page_source.h"
#include "os/process.h"
#include "os/threads.h"
#include "os/wait.h"
#include "recorder/calls.h"

namespace strata::recorder {
namespace {

// Chosen: leaves time to write within the one second of calls that a killed program may lose.
constexpr std::uint64_t kFlushNs = 250'000'000;
constexpr std::uint64_t kSleepNs = 100'000'000;
constexpr std::uint64_t kMs = 1'000'000;
constexpr unsigned kMostNames = 10'000;

bool replace_process(std::string_view pattern, std::uint64_t process, Text& out) noexcept {
  bool is_named = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%' && i + 1 < pattern.size() && pattern[i + 1] == 'p') {
      out.decimal(process);
      is_named = true;
      ++i;
    } else {
      out.add({&pattern[i], 1});
    }
  }
  return is_named;
}

void before_fork() noexcept { g_recording.before_fork(); }
void after_fork_in_parent() noexcept { g_recording.after_fork_in_parent(); }
void after_fork_in_child() noexcept { g_recording.after_fork_in_child(); }

}  // namespace

constinit Recording g_recording;

void Recording::start(const char* allocator) noexcept {
  if (is_starting_.exchange(true, std::memory_order_acquire)) return;
  settings_.read();
  process_ = os::process_id();
  if (settings_.file == nullptr || !take_memory() || !open_file() || !open_writer(allocator)) {
    mode_.store(Mode::kOff, std::memory_order_relaxed);
    return;
  }
  if (!has_fork_handlers_) {
    has_fork_handlers_ = true;
    os::register_fork_handlers(recorder::before_fork, recorder::after_fork_in_parent,
                               recorder::after_fork_in_child);
  }
  started_ns_ = flushed_ns_ = monotonic_ns();
  if (is_process_ == nullptr) {
    is_process_ = static_cast<std::uint32_t*>(map_memory_of_process(sizeof *is_process_));
    if (is_process_ != nullptr) *is_process_ = 1;
  }
  has_writer_.store(true, std::memory_order_release);
  // Stays off until the writer turns it on, in case it begins later.
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  if (settings_.after_ms == 0 && settings_.signal == 0) turn_on();
  const bool has_thread = start_hidden_thread(run_writer, this);
  os::close_file(file_);  // the writer has its own copy
  if (has_thread) return;
  has_writer_.store(false, std::memory_order_relaxed);
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  say("strata record: the kernel refused a thread for the recorder; the program runs unrecorded\n");
}

/// Maps all that does not grow with the program, in one piece: nothing is taken from a program that
/// cannot spare all of it. Most is never touched.
bool Recording::take_memory() noexcept {
  if (writer_ != nullptr) return true;  // the parent of this process took it
  constexpr std::size_t kHeads = StreamTable::kMostStreams * sizeof(Head);
  constexpr std::size_t kOfStacks = StackTree::kBytes + Modules::kBytes;
  static_assert(StackTree::kBytes % 16 == 0 && Modules::kBytes % 16 == 0 &&
                    StreamTable::kBytes % alignof(Head) == 0 && kHeads % 16 == 0 &&
                    alignof(trace::Writer) <= 16,
                "each piece begins where the last one ends");
  const bool has_stacks = settings_.stack_frames != 0;
  const std::size_t bytes = StreamTable::kBytes + kHeads + (has_stacks ? kOfStacks : 0);
  auto* memory = static_cast<char*>(map_memory(bytes + sizeof(trace::Writer)));
  if (memory == nullptr) {
    say(has_stacks
            ? "strata record: the recorder needs 120 MiB of address space (10 with --stacks off), "
              "and there is less; the program runs unrecorded\n"
            : "strata record: the recorder needs 10 MiB of address space, and there is less; the "
              "program runs unrecorded\n");
    return false;
  }
  char* const streams = memory;
  memory += StreamTable::kBytes;
  heads_ = reinterpret_cast<Head*>(memory);
  memory += kHeads;
  if (has_stacks) {
    stacks_.use(memory);
    modules_.use(memory + StackTree::kBytes);
    memory += kOfStacks;
  }
  writer_ = reinterpret_cast<trace::Writer*>(memory);
  streams_.use(streams);
  return true;
}

/// Opens the file, or the first of FILE.PROCESS, FILE.PROCESS.2, … that does not exist.
bool Recording::open_file() noexcept {
  int result = 0;
  for (unsigned attempt = 0; attempt < kMostNames; ++attempt) {
    file_name_ = Text();
    const bool is_named = replace_process(settings_.file, process_, file_name_);
    if (attempt > 0 && !is_named) file_name_.add(".").decimal(process_);
    if (attempt > 1 || (attempt > 0 && is_named)) {
      file_name_.add(".").decimal(is_named ? attempt + 1 : attempt);
    }
    result = create_file(file_name_.c_string());
    if (result != -EEXIST) break;
  }
  file_ = result;
  if (result >= 0) return true;
  Text sentence;
  sentence.add("strata record: the trace '").value(file_name_.view());
  sentence.add("' cannot be created: ").add(os::text_of_error(-result));
  say(sentence.add("; the program runs unrecorded\n").view());
  return false;
}

bool Recording::open_writer(const char* allocator) noexcept {
  error_ = 0;
  clock_.prepare();
  ::new (writer_) trace::Writer(write_bytes, this);
  writer_->begin();
  tell_process(allocator);
  if (!writer_->has_failed()) return true;
  give_up();
  return false;
}

void Recording::tell_process(const char* allocator) noexcept {
  Text text;
  char command[8192];
  std::size_t size = read_small_file("/proc/self/cmdline", command, sizeof command);
  while (size > 0 && command[size - 1] == '\0') --size;
  text.property("pid", process_).property("parent", parent_number());
  text.property("command", {command, size});
  text.property("started_ns", os::wall_clock_ns()).property("page_bytes", os::page_bytes());
  if (settings_.stack_frames == 0) {
    text.property("stacks", "off");
  } else {
    text.property("stacks", settings_.stack_frames);
  }
  if (allocator != nullptr) text.property("allocator", allocator);
  writer_->add_text(trace::BlockKind::kProcess, text.view());
}

bool Recording::write_bytes(void* self, const void* bytes, std::size_t count) noexcept {
  auto& recording = *static_cast<Recording*>(self);
  recording.error_ = write_file(recording.file_, bytes, count);
  return recording.error_ == 0;
}

void Recording::toggle() noexcept {
  toggles_.fetch_add(1, std::memory_order_relaxed);
  ring();
}

void Recording::ring() noexcept {
  bell_.fetch_add(1, std::memory_order_release);
  if (is_writer_asleep_.load(std::memory_order_acquire)) os::wake_all(os::futex_word(bell_));
}

void Recording::ask(Request request) noexcept {
  // A child of vfork shares our memory; the parent's recording goes on.
  if (!has_writer_.load(std::memory_order_acquire) || os::process_id() != process_) return;
  requests_.fetch_or(request, std::memory_order_relaxed);
  const std::uint32_t own = asked_.fetch_add(1, std::memory_order_release) + 1;
  ring();
  while (has_writer_.load(std::memory_order_acquire)) {
    const std::uint32_t answered = answered_.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(answered - own) >= 0) return;
    os::wait_on(os::futex_word(answered_), answered, kSleepNs);
  }
}

bool Recording::leave_stray_copy() noexcept {
  if (is_process_ == nullptr || *is_process_ != 0) return false;
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  has_writer_.store(false, std::memory_order_relaxed);
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
      if (streams_.has_much()) ring();
      return true;
    }
    if (!is_on() || must_drop()) {
      stream.dropped.fetch_add(1, std::memory_order_relaxed);
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
  ring();
  os::wait_on(os::futex_word(streams_.returns()), seen, kMs);
}

void Recording::before_fork() noexcept {
  if (leave_stray_copy()) return;
  forks_waiting_.fetch_add(1, std::memory_order_relaxed);
  round_.lock();
  forks_waiting_.fetch_sub(1, std::memory_order_relaxed);
  os::wake_all(os::futex_word(forks_waiting_));
  streams_.lock().lock();
  stacks_.lock().lock();
}

void Recording::after_fork_in_parent() noexcept {
  stacks_.lock().unlock();
  streams_.lock().unlock();
  round_.unlock();
}

void Recording::after_fork_in_child() noexcept {
  after_fork_in_parent();
  if (!has_writer_.load(std::memory_order_relaxed)) return;
  if (is_process_ != nullptr) *is_process_ = 1;
  streams_.forget_all();
  t_state.stream = nullptr;
  t_state.used = t_state.most = 0;
  objects_.clear();
  modules_.forget_all();
  written_stacks_ = 0;
  thread_numbers_ = {};
  last_old_stack_ = stacks_.last_old();
  reported_drops_ = 0;
  forks_waiting_.store(0, std::memory_order_relaxed);  // the other forks belong to the parent
  dropped_.store(0, std::memory_order_relaxed);
  toggles_.store(0, std::memory_order_relaxed);
  requests_.store(kNone, std::memory_order_relaxed);
  is_writer_asleep_.store(false, std::memory_order_relaxed);
  has_begun_ = false;
  has_writer_.store(false, std::memory_order_relaxed);
  mode_.store(Mode::kNotStarted, std::memory_order_relaxed);
  is_starting_.store(false, std::memory_order_release);
}

int Recording::run_writer(void* self) noexcept {
  auto& recording = *static_cast<Recording*>(self);
  close_all_but(recording.file_);
  recording.process_stat_ = open_process_stat();
  for (;;) {
    const std::uint32_t bell = recording.bell_.load(std::memory_order_acquire);
    recording.begin_round();
    const bool goes_on = recording.work();
    recording.round_.unlock();
    if (!goes_on) {
      const int end = end_of_others(recording.process_stat_);
      if (end >= 0) end_process(end);
      return 0;
    }
    recording.is_writer_asleep_.store(true, std::memory_order_seq_cst);
    if (recording.bell_.load(std::memory_order_seq_cst) == bell) {
      os::wait_on(os::futex_word(recording.bell_), bell, recording.sleep_ns());
    }
    recording.is_writer_asleep_.store(false, std::memory_order_relaxed);
  }
}

/// Lets a waiting fork go first, because the lock is not fair.
void Recording::begin_round() noexcept {
  const std::uint32_t forks = forks_waiting_.load(std::memory_order_relaxed);
  if (forks != 0) os::wait_on(os::futex_word(forks_waiting_), forks, kSleepNs);
  round_.lock();
}

void Recording::turn_on() noexcept {
  has_begun_ = true;
  begun_ns_ = monotonic_ns();
  origin_ = clock_.count();
  mode_.store(Mode::kOn, std::memory_order_release);
}

bool Recording::is_time_over() const noexcept {
  return settings_.for_ms != 0 && monotonic_ns() - begun_ns_ >= settings_.for_ms * kMs;
}

std::uint64_t Recording::sleep_ns() const noexcept {
  if (!has_begun_ || settings_.for_ms != 0) return kSleepNs / 20;
  return kSleepNs;
}

/// Waits until everything recorded so far is old enough to be taken, even if held back.
void Recording::settle() noexcept {
  const std::uint64_t now = clock_.count();
  while (clock_.count() - now <= 8 * clock_.skew()) os::relax_processor();
}

/// \returns  False when the recording is over.
bool Recording::work() noexcept {
  const std::uint32_t toggles = toggles_.load(std::memory_order_relaxed);
  if (!has_begun_) {
    const bool is_due = settings_.signal != 0
                            ? toggles > 0
                            : monotonic_ns() - started_ns_ >= settings_.after_ms * kMs;
    if (is_due) turn_on();
  }
  // acquire pairs with ask()'s release: the bits of these requests are visible, or already taken.
  const std::uint32_t asked = asked_.load(std::memory_order_acquire);
  const std::uint32_t requests = requests_.exchange(kNone, std::memory_order_relaxed);
  const bool is_end = (requests & kEnd) != 0;
  if ((requests & kFlush) != 0) settle();
  drain();
  if ((requests & kNameStacks) != 0) write_stacks();
  const std::uint64_t now = monotonic_ns();
  const bool is_signalled_off = settings_.signal != 0 && toggles > 1;
  const bool is_over = has_begun_ && (is_time_over() || is_signalled_off);
  if (is_end || is_over) {
    finish(is_end ? "exit" : is_signalled_off ? "signal" : "time");
  } else if ((requests & kFlush) != 0 || now - flushed_ns_ >= kFlushNs) {
    flushed_ns_ = now;
    write_names();
    report_drops();
    writer_->flush();
    collect_ended_threads();
    // The program ended by the raw system call, or was killed by a seccomp filter.
    if (end_of_others(process_stat_) >= 0) finish("exit");
  }
  if (writer_->has_failed()) give_up();
  const bool goes_on = has_writer_.load(std::memory_order_relaxed);
  if (asked != answered_.load(std::memory_order_relaxed) || !goes_on) {
    answered_.store(asked, std::memory_order_release);
    os::wake_all(os::futex_word(answered_));
  }
  return goes_on;
}

void Recording::finish(const char* reason) noexcept {
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  settle();
  drain();
  write_names();
  report_drops();
  Text text;
  text.property("reason", reason).property("events", writer_->events());
  text.property("objects", writer_->next_object());
  text.property("dropped", reported_drops_);
  text.property("writer_cpu_ns", os::thread_cpu_ns());
  text.property("lasted_ns", has_begun_ ? clock_.ns_at(clock_.count()) - clock_.ns_at(origin_) : 0);
  writer_->end(text.view());
  if (writer_->has_failed()) return;
  os::close_file(file_);
  has_writer_.store(false, std::memory_order_release);
}

void Recording::give_up() noexcept {
  mode_.store(Mode::kOff, std::memory_order_relaxed);
  Text sentence;
  sentence.add("strata record: the trace '").value(file_name_.view());
  sentence.add("' ends here, because it could not be written: ").add(os::text_of_error(error_));
  say_from_hidden_thread(sentence.add("; the program goes on\n").view());
  os::close_file(file_);
  has_writer_.store(false, std::memory_order_release);
}

}  // namespace strata::recorder
