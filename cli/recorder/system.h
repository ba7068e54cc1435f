#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// \file  The recorder's system calls beyond those of os. They preserve errno.

namespace strata::recorder {

/// Maps zero pages without reserving memory for them: they are committed as they are touched.
/// \returns  nullptr if out of memory.
void* map_memory(std::size_t bytes) noexcept;
/// The same for a table with random accesses: uses huge pages if available.
void* map_table(std::size_t bytes) noexcept;
/// The same, but zeroed in every child that gets a copy of the memory, however it was created.
/// \returns  nullptr also if the kernel cannot do that (Linux before 4.14).
void* map_memory_of_process(std::size_t bytes) noexcept;
void unmap_memory(void* memory, std::size_t bytes) noexcept;

/// Creates a file, close-on-exec; opens an existing device or pipe of that name.
/// \returns  The file, or a negative error; -EEXIST if a file of that name exists.
int create_file(const char* path) noexcept;
/// Writes all bytes.
/// \returns  0, or an error.
int write_file(int file, const void* bytes, std::size_t count) noexcept;
/// Closes a hidden thread's copies of the program's files, so that a file which the program closes
/// is really closed.
void close_all_but(int file) noexcept;
/// Reads up to `capacity` bytes from the beginning of a file in /proc.
/// \returns  The number of bytes; 0 on failure.
std::size_t read_small_file(const char* path, char* out, std::size_t capacity) noexcept;

/// The calling thread's kernel name, zero-terminated.
void read_thread_name(char (&out)[16]) noexcept;
std::uint64_t parent_number() noexcept;
bool is_thread_alive(std::uint64_t process, std::uint32_t thread) noexcept;
/// Opens the calling thread's file for end_of_others(); negative on failure.
int open_process_stat() noexcept;
/// Returns the wait status of the process's first thread if the calling thread is the only one
/// left.
/// \returns  A negative number if other threads exist, or if it is unknown.
int end_of_others(int process_stat) noexcept;
/// Ends the process, whose last thread is the caller, so that wait() reports the status `end`.
[[noreturn]] void end_process(int end) noexcept;
/// Like os::monotonic_ns(), but without a system call.
std::uint64_t monotonic_ns() noexcept;
void say(std::string_view sentence) noexcept;  ///< writes to standard error
/// Writes to the program's standard error.
void say_from_hidden_thread(std::string_view sentence) noexcept;

/// Starts a thread that the C library does not know. A single-threaded program stays
/// single-threaded (its malloc takes no locks) and ends when its last own thread returns. If that
/// thread ends by the raw system call, or is killed alone, the hidden thread must end the process.
/// It blocks all signals. It starts with a copy of the program's file table, so neither side's
/// later opens and closes affect the other. Of thread-local variables it has errno alone, and must
/// not call code that needs others.
/// \param number  the thread's ID; the kernel sets it to 0 when the thread ends, however it does
/// \returns  False if the kernel refuses.
bool start_hidden_thread(int (*body)(void*), void* argument,
                         std::atomic<std::uint32_t>& number) noexcept;

}  // namespace strata::recorder
