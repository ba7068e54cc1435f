#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// \file  What a recorder asks of the kernel beside what is in os. errno stays as it was.

namespace strata::recorder {

/// Zero pages, not reserved: memory is used as it is touched.
/// \returns  nullptr if there are none.
void* map_memory(std::size_t bytes) noexcept;
/// The same for a table that is used all over: in huge pages where the system has them.
void* map_table(std::size_t bytes) noexcept;
/// The same, zero again in every child that has a copy of the memory, however it was made.
/// \returns  nullptr where the kernel does not do that (Linux before 4.14), too.
void* map_memory_of_process(std::size_t bytes) noexcept;
void unmap_memory(void* memory, std::size_t bytes) noexcept;

/// A new file, closed across exec; a device or a pipe of that name is opened as it is.
/// \returns  A negative error if it cannot be made: -EEXIST if there is one already.
int create_file(const char* path) noexcept;
/// All of it.
/// \returns  0, or an error.
int write_file(int file, const void* bytes, std::size_t count) noexcept;
/// Of a hidden thread's files: then what the program closes is closed, though it was open when the
/// thread began.
void close_all_but(int file) noexcept;
/// Up to `capacity` bytes from the beginning of a file in /proc.
/// \returns  0 if there are none.
std::size_t read_small_file(const char* path, char* out, std::size_t capacity) noexcept;

/// The calling thread's name as the kernel has it, 0 at its end.
void read_thread_name(char (&out)[16]) noexcept;
std::uint64_t parent_number() noexcept;
bool is_thread_alive(std::uint64_t process, std::uint32_t thread) noexcept;
/// A file of the calling thread for end_of_others(); negative where there is none.
int open_process_stat() noexcept;
/// How the first thread of the process has ended, as wait() tells it, if the calling thread is the
/// last one.
/// \returns  A negative number if there are others, or nobody knows.
int end_of_others(int process_stat) noexcept;
/// Ends the process, whose last thread this is, so that wait() reports that status.
[[noreturn]] void end_process(int end) noexcept;
std::uint64_t monotonic_ns() noexcept;
std::uint64_t wall_ns() noexcept;
std::uint64_t thread_cpu_ns() noexcept;        ///< of the calling thread
void say(std::string_view sentence) noexcept;  ///< on standard error
/// On the program's standard error.
void say_from_hidden_thread(std::string_view sentence) noexcept;
const char* error_text(int error) noexcept;

/// Starts a thread that the C library does not know: meanwhile a program of one thread stays one
/// (its malloc takes no locks), and ends when its last own thread returns. Where that one ends by
/// the system call, or is killed alone, the hidden thread has to end the process. All signals are
/// blocked in it. Its files are its own, at first those of the program at this moment: neither can
/// hit the other's. Of thread-local variables it has errno alone, and it must not call what needs
/// others.
/// \returns  False if the kernel refuses.
bool start_hidden_thread(int (*body)(void*), void* argument) noexcept;

}  // namespace strata::recorder
