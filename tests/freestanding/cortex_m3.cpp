// The least that a Cortex-M3 needs to run the self-test: a vector table, memory as C++ expects it,
// a timer that interrupts as often as it can, and a way to tell the emulator how it went.

#include <cstdint>

#include "self_test.h"

extern "C" {
extern std::uint32_t stack_top[], data_in_flash[], data_begin[], data_end[], bss_begin[], bss_end[];
[[noreturn]] void reset();
[[noreturn]] void fault();
void tick();

// Functions that GCC may call even without a library.
void* memset(void* to, int value, unsigned bytes) {
  for (auto* p = static_cast<volatile unsigned char*>(to); bytes != 0; --bytes) {
    *p++ = static_cast<unsigned char>(value);
  }
  return to;
}
void* memcpy(void* to, const void* from, unsigned bytes) {
  auto* target = static_cast<volatile unsigned char*>(to);
  for (auto* source = static_cast<const unsigned char*>(from); bytes != 0; --bytes) {
    *target++ = *source++;
  }
  return to;
}
}

namespace {

using Handler = void (*)();
struct VectorTable {
  std::uint32_t* stack;
  Handler handlers[15];
};
[[gnu::section(".vectors"), gnu::used]] const VectorTable vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, nullptr, nullptr, nullptr, nullptr, fault, fault,
     nullptr, fault, tick}};

/// ARM semihosting: an instruction that a debugger or an emulator carries out.
std::uint32_t semihosting(std::uint32_t operation, const void* argument) {
  register std::uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
void print(const char* text) { semihosting(0x04, text); }  // SYS_WRITE0

[[noreturn]] void exit_with(bool passed) {
  // SYS_EXIT: ADP_Stopped_ApplicationExit is status 0, ADP_Stopped_RunTimeErrorUnknown is not.
  semihosting(0x18, reinterpret_cast<const void*>(passed ? 0x20026u : 0x20023u));
  for (;;) {
  }
}

void print_number(unsigned number) {
  char digits[12];
  char* p = digits + sizeof(digits);
  *--p = '\0';
  do {
    *--p = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  print(p);
}

volatile int interrupt_result = 0;
volatile unsigned interrupt_count = 0;

volatile std::uint32_t& device_register(std::uintptr_t address) {
  return *reinterpret_cast<volatile std::uint32_t*>(address);
}

}  // namespace

void tick() {
  interrupt_count = interrupt_count + 1;
  const int line = strata_self_test_interrupt();
  if (line != 0) interrupt_result = line;
}

void fault() {
  print("fault\n");
  exit_with(false);
}

void reset() {
  const std::uint32_t* from = data_in_flash;
  for (std::uint32_t* to = data_begin; to != data_end;) *to++ = *from++;
  for (std::uint32_t* to = bss_begin; to != bss_end;) *to++ = 0;
  device_register(0xe000e014) = 997;  // SysTick reload, a prime: every phase of a loop is met
  device_register(0xe000e018) = 0;    // SysTick value
  device_register(0xe000e010) = 7;    // SysTick: on, interrupt, processor clock
  int line = 0;
  do {
    line = strata_self_test();
  } while (line == 0 && interrupt_result == 0 && interrupt_count < 1000);
  device_register(0xe000e010) = 0;
  print("self-test: ");
  print(line == 0 && interrupt_result == 0 ? "passed" : "failed at line ");
  if (line != 0 || interrupt_result != 0) {
    print_number(static_cast<unsigned>(line != 0 ? line : interrupt_result));
  }
  print(", interrupted ");
  print_number(interrupt_count);
  print(" times\n");
  exit_with(line == 0 && interrupt_result == 0);
}
