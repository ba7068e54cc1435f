#pragma once

/// What a microcontroller can check about the pools that need no hosted library. Built without one,
/// without exceptions and RTTI, as C++17; run on this machine by self_test_hosted.cpp and, where
/// the tools are installed, on an emulated Cortex-M3.
/// \returns  0, or the line of the check that failed.
extern "C" int strata_self_test();

/// The same pool from an interrupt handler: takes and gives back a block. Call it from wherever, as
/// often as possible, while strata_self_test() runs.
/// \returns  0, or the line of the check that failed.
extern "C" int strata_self_test_interrupt();

/// What it can check about BlockAllocator; strata_self_test() does.
/// \returns  The same.
extern "C" int strata_block_self_test();
