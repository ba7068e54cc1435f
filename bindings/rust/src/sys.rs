//! The functions of `strata/heap.h` and `strata/malloc.h` that this crate calls.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

#[cfg(feature = "heap")]
pub use heap::*;
#[cfg(feature = "malloc")]
pub use malloc::*;

#[cfg(feature = "heap")]
mod heap {
    use std::os::raw::{c_char, c_void};

    #[repr(C)]
    pub struct strata_heap {
        opaque: [u8; 0],
    }

    /// In C, all zero means the defaults, also for options that a later version appends.
    #[repr(C)]
    pub struct strata_heap_options {
        pub name: *const c_char,
        pub soft_limit_bytes: usize,
        pub hard_limit_bytes: usize,
        pub reclaim_delay_ms: u32,
        pub keeps_idle_memory: bool,
        pub checks_fully: bool,
        pub checks_frees: bool,
        pub guard_rate: u32,
        pub huge_pages: u8,
        pub later: [u8; 128],
    }

    /// The sums of a heap, in bytes. At rest `mapped == live + cached + free + metadata + returned`
    /// and `held == mapped - returned`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct strata_heap_statistics {
        pub mapped: usize,
        /// owned by the program, rounded up to size classes or pages
        pub live: usize,
        /// free, in thread caches and transfer caches
        pub cached: usize,
        /// other free memory, not yet returned
        pub free: usize,
        /// bookkeeping
        pub metadata: usize,
        /// address space without memory
        pub returned: usize,
        /// what the limits count
        pub held: usize,
        /// the largest `held`
        pub peak: usize,
        pub soft_limit: usize,
        pub hard_limit: usize,
        /// by the hard limit
        pub refusals: u64,
        /// with a cache
        pub threads: usize,
    }

    extern "C" {
        pub fn strata_heap_create(
            options: *const strata_heap_options,
            reason: *mut *const c_char,
        ) -> *mut strata_heap;
        pub fn strata_heap_destroy(heap: *mut strata_heap);
        pub fn strata_heap_malloc(heap: *mut strata_heap, bytes: usize) -> *mut c_void;
        pub fn strata_heap_calloc(
            heap: *mut strata_heap,
            count: usize,
            bytes: usize,
        ) -> *mut c_void;
        pub fn strata_heap_aligned_alloc(
            heap: *mut strata_heap,
            alignment: usize,
            bytes: usize,
        ) -> *mut c_void;
        pub fn strata_heap_realloc(
            heap: *mut strata_heap,
            block: *mut c_void,
            bytes: usize,
        ) -> *mut c_void;
        pub fn strata_heap_free(heap: *mut strata_heap, block: *mut c_void);
        pub fn strata_heap_free_sized(heap: *mut strata_heap, block: *mut c_void, bytes: usize);
        pub fn strata_heap_owns(heap: *const strata_heap, address: *const c_void) -> bool;
        pub fn strata_heap_reset(heap: *mut strata_heap);
        pub fn strata_heap_release_memory(heap: *mut strata_heap) -> bool;
        pub fn strata_heap_statistics_of(
            heap: *const strata_heap,
            statistics: *mut strata_heap_statistics,
        );
        pub fn strata_heap_stats_json(
            heap: *const strata_heap,
            buffer: *mut c_char,
            size: usize,
        ) -> usize;
    }
}

#[cfg(feature = "malloc")]
mod malloc {
    use std::os::raw::{c_char, c_int, c_void};

    extern "C" {
        pub fn strata_malloc(bytes: usize) -> *mut c_void;
        pub fn strata_calloc(count: usize, bytes: usize) -> *mut c_void;
        pub fn strata_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
        pub fn strata_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
        pub fn strata_free(block: *mut c_void);
        pub fn strata_free_sized(block: *mut c_void, bytes: usize);
        pub fn strata_release_memory() -> c_int;
        pub fn strata_stats_json(buffer: *mut c_char, size: usize) -> usize;
    }
}
