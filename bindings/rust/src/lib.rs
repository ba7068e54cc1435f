//! Strata for Rust: the malloc and [heaps of one's own](Heap) as allocators.
//!
//! * [`GlobalHeap`] makes one heap the program's global allocator, with limits and statistics of
//!   its own. C libraries go on using the process's malloc. Feature `heap`, the default.
//! * [`Heap`] is one more heap, for a subsystem or a tenant.
//! * [`Malloc`] makes Strata the malloc of the whole program, libraries in C included. Feature
//!   `malloc`.
//!
//! A program run by `strata run`, or with `libstrata.so` preloaded, needs none of them: Rust's own
//! global allocator is the process's malloc.
//!
//! What the functions in C promise (`strata/heap.h`, `strata/malloc.h`) holds here, too: costs,
//! `fork`, and that detected misuse ends the program with one sentence.
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(any(feature = "heap", feature = "malloc"))]
mod by_layout;
#[cfg(feature = "heap")]
mod global_heap;
#[cfg(feature = "heap")]
mod heap;
#[cfg(feature = "malloc")]
mod malloc;
mod sys;

#[cfg(feature = "heap")]
pub use global_heap::GlobalHeap;
#[cfg(feature = "heap")]
pub use heap::{Heap, HugePages, Options};
#[cfg(feature = "malloc")]
pub use malloc::Malloc;
#[cfg(feature = "heap")]
pub use sys::strata_heap_statistics as Statistics;
