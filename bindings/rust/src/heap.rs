use crate::by_layout::{self, InC};
use crate::sys::*;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::ptr::{self, NonNull};

/// The options of a heap. `Options::new()` has the defaults: no limits; idle memory is returned
/// after a second.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// For messages and statistics; cut to 31 bytes.
    pub name: &'a str,
    /// Bytes; above it all idle memory is returned at once. 0: none.
    pub soft_limit: usize,
    /// Bytes, exactly; allocations that would exceed it fail. 0: none.
    pub hard_limit: usize,
    /// Milliseconds; memory idle for this long is returned. 0: 1000.
    pub reclaim_delay_ms: u32,
    /// Idle memory stays until [`Heap::release_memory`].
    pub keeps_idle_memory: bool,
    /// As `STRATA_CHECKS=full`: every block is watched.
    pub checks_fully: bool,
    /// As `STRATA_CHECKS=frees`: every free is verified, where `checks_fully` is false.
    pub checks_frees: bool,
    /// As `STRATA_GUARD_RATE`: one in this many blocks lies between inaccessible pages. 0: none.
    pub guard_rate: u32,
    /// When regions of 2 MiB ask the kernel for huge pages.
    pub huge_pages: HugePages,
}

/// As `STRATA_HUGE_PAGES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Once the heap is so large that one more region does not matter.
    Auto = 0,
    /// At their first touch.
    Always = 1,
    Never = 2,
}

impl<'a> Options<'a> {
    pub const fn new() -> Self {
        Self {
            name: "",
            soft_limit: 0,
            hard_limit: 0,
            reclaim_delay_ms: 0,
            keeps_idle_memory: false,
            checks_fully: false,
            checks_frees: false,
            guard_rate: 0,
            huge_pages: HugePages::Auto,
        }
    }

    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    pub const fn hard_limit(mut self, bytes: usize) -> Self {
        self.hard_limit = bytes;
        self
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes a heap without allocating from the global allocator, which may be the heap being made.
pub(crate) fn create(options: &Options) -> Result<NonNull<strata_heap>, &'static str> {
    let mut name = [0u8; 32];
    let mut length = options.name.len().min(name.len() - 1);
    while !options.name.is_char_boundary(length) {
        length -= 1;
    }
    name[..length].copy_from_slice(&options.name.as_bytes()[..length]);
    let in_c = strata_heap_options {
        name: name.as_ptr().cast(),
        soft_limit_bytes: options.soft_limit,
        hard_limit_bytes: options.hard_limit,
        reclaim_delay_ms: options.reclaim_delay_ms,
        keeps_idle_memory: options.keeps_idle_memory,
        checks_fully: options.checks_fully,
        checks_frees: options.checks_frees,
        guard_rate: options.guard_rate,
        huge_pages: options.huge_pages as u8,
        later: [0; 128],
    };
    let mut reason: *const c_char = ptr::null();
    // SAFETY: both pointers are valid for the call; the name is copied.
    let made = unsafe { strata_heap_create(&in_c, &mut reason) };
    NonNull::new(made).ok_or_else(|| {
        // SAFETY: a refusal leaves a sentence in static memory.
        unsafe { CStr::from_ptr(reason) }.to_str().unwrap_or("strata: no heap could be made")
    })
}

/// The calls of `strata/heap.h` on one heap.
#[derive(Clone, Copy)]
pub(crate) struct HeapInC(pub(crate) *mut strata_heap);

// SAFETY: the calls are those of C.
unsafe impl InC for HeapInC {
    #[inline]
    unsafe fn malloc(&self, bytes: usize) -> *mut c_void {
        unsafe { strata_heap_malloc(self.0, bytes) }
    }
    #[inline]
    unsafe fn calloc(&self, bytes: usize) -> *mut c_void {
        unsafe { strata_heap_calloc(self.0, 1, bytes) }
    }
    #[inline]
    unsafe fn aligned_alloc(&self, alignment: usize, bytes: usize) -> *mut c_void {
        unsafe { strata_heap_aligned_alloc(self.0, alignment, bytes) }
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut c_void, bytes: usize) -> *mut c_void {
        unsafe { strata_heap_realloc(self.0, block, bytes) }
    }
    #[inline]
    unsafe fn free(&self, block: *mut c_void) {
        unsafe { strata_heap_free(self.0, block) }
    }
    #[inline]
    unsafe fn free_sized(&self, block: *mut c_void, bytes: usize) {
        unsafe { strata_heap_free_sized(self.0, block, bytes) }
    }
}

/// A heap of one's own: any thread may allocate from it and free into it. Dropping it frees all its
/// blocks.
///
/// It is a `GlobalAlloc`, whose functions serve blocks by `Layout`; they return null if the limit
/// or the kernel refuses.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
///
/// let heap = strata::Heap::new(&strata::Options::new().name("tenant").hard_limit(8 << 20)).unwrap();
/// let layout = Layout::new::<[u64; 4]>();
/// let block = unsafe { heap.alloc(layout) };
/// assert!(heap.owns(block));
/// unsafe { heap.dealloc(block, layout) };
/// ```
pub struct Heap {
    in_c: HeapInC,
}

// SAFETY: every function of strata/heap.h may be called by any number of threads at once.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// Makes a heap; the error is one sentence.
    pub fn new(options: &Options) -> Result<Self, &'static str> {
        create(options).map(|heap| Self { in_c: HeapInC(heap.as_ptr()) })
    }

    /// True if the address lies anywhere in this heap's memory.
    pub fn owns<T>(&self, address: *const T) -> bool {
        // SAFETY: the heap lives; the address is only looked up.
        unsafe { strata_heap_owns(self.in_c.0, address.cast()) }
    }

    /// Frees every block at once; their memory stays with the heap.
    ///
    /// # Safety
    /// No block of the heap may be used afterwards, and no other thread may be inside a call on it.
    pub unsafe fn reset(&self) {
        unsafe { strata_heap_reset(self.in_c.0) }
    }

    /// Returns all idle memory to the kernel; true if there was any.
    pub fn release_memory(&self) -> bool {
        // SAFETY: the heap lives.
        unsafe { strata_heap_release_memory(self.in_c.0) }
    }

    pub fn statistics(&self) -> strata_heap_statistics {
        statistics_of(self.in_c)
    }

    /// All figures as one JSON document, described by docs/stats-schema.json.
    pub fn statistics_json(&self) -> String {
        // SAFETY: the heap lives; the buffer has `size` bytes.
        by_layout::text_of(|buffer, size| unsafe {
            strata_heap_stats_json(self.in_c.0, buffer, size)
        })
    }
}

pub(crate) fn statistics_of(heap: HeapInC) -> strata_heap_statistics {
    let mut statistics = strata_heap_statistics::default();
    // SAFETY: the heap lives; C fills in the same struct.
    unsafe { strata_heap_statistics_of(heap.0, &mut statistics) };
    statistics
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: drop has exclusive access.
        unsafe { strata_heap_destroy(self.in_c.0) }
    }
}

// SAFETY: blocks are as large and as aligned as asked for, and stay until they are freed.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { by_layout::alloc(&self.in_c, layout) }
    }
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { by_layout::dealloc(&self.in_c, block, layout) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { by_layout::alloc_zeroed(&self.in_c, layout) }
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        unsafe { by_layout::realloc(&self.in_c, block, layout, bytes) }
    }
}
