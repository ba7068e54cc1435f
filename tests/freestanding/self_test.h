#pragma once

/// Tests what a microcontroller can test of the pools that need no hosted library. Compiled as
/// C++17 without such a library, without exceptions and RTTI; run on this machine by
/// self_test_hosted.cpp and, where the tools are installed, on an emulated Cortex-M3.
/// \returns  0, or the line of the check that failed
extern "C" int strata_self_test();

/// Takes and gives back a block of the same pool, in an interrupt handler. Call it from anywhere,
/// as often as possible, while strata_self_test() runs.
/// \returns  0, or the line of the check that failed
extern "C" int strata_self_test_interrupt();

/// The part about BlockAllocator, which strata_self_test() calls.
/// \returns  0, or the line of the check that failed
extern "C" int strata_block_self_test();
