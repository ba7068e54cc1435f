use crate::by_layout::{self, InC};
use crate::sys::*;
use std::alloc::{GlobalAlloc, Layout};
use std::os::raw::c_void;

/// Strata's malloc as the global allocator, linked into the program. It is also the program's
/// `malloc`, so it counts and checks what C libraries allocate, too. The environment sets its
/// options (`STRATA_CHECKS`, `STRATA_STATS`, …).
///
/// ```
/// #[global_allocator]
/// static GLOBAL: strata::Malloc = strata::Malloc;
///
/// assert!(strata::Malloc::statistics_json().contains("\"malloc\""));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Malloc;

impl Malloc {
    /// All figures as one JSON document, described by docs/stats-schema.json.
    pub fn statistics_json() -> String {
        // SAFETY: the buffer has `size` bytes.
        by_layout::text_of(|buffer, size| unsafe { strata_stats_json(buffer, size) })
    }

    /// Returns all idle memory to the kernel; true if there was any.
    pub fn release_memory() -> bool {
        // SAFETY: may be called at any time.
        unsafe { strata_release_memory() != 0 }
    }
}

// SAFETY: the calls are those of C.
unsafe impl InC for Malloc {
    #[inline]
    unsafe fn malloc(&self, bytes: usize) -> *mut c_void {
        unsafe { strata_malloc(bytes) }
    }
    #[inline]
    unsafe fn calloc(&self, bytes: usize) -> *mut c_void {
        unsafe { strata_calloc(1, bytes) }
    }
    #[inline]
    unsafe fn aligned_alloc(&self, alignment: usize, bytes: usize) -> *mut c_void {
        unsafe { strata_aligned_alloc(alignment, bytes) }
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut c_void, bytes: usize) -> *mut c_void {
        unsafe { strata_realloc(block, bytes) }
    }
    #[inline]
    unsafe fn free(&self, block: *mut c_void) {
        unsafe { strata_free(block) }
    }
    #[inline]
    unsafe fn free_sized(&self, block: *mut c_void, bytes: usize) {
        unsafe { strata_free_sized(block, bytes) }
    }
}

// SAFETY: blocks are as large and as aligned as asked for, and stay until they are freed.
unsafe impl GlobalAlloc for Malloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { by_layout::alloc(self, layout) }
    }
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { by_layout::dealloc(self, block, layout) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { by_layout::alloc_zeroed(self, layout) }
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        unsafe { by_layout::realloc(self, block, layout, bytes) }
    }
}
