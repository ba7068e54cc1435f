use crate::by_layout;
use crate::heap::{create, statistics_of, HeapInC, Options};
use crate::sys::*;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// One heap as the program's global allocator: Rust's own memory gets limits and statistics, and C
/// libraries keep the process's malloc. The first allocation makes it, and it never ends.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: strata::GlobalHeap =
///     strata::GlobalHeap::new(strata::Options::new().name("rust").hard_limit(1 << 30));
///
/// let numbers = vec![7; 1000];
/// assert!(GLOBAL.owns(numbers.as_ptr()));
/// assert!(GLOBAL.statistics().live >= 4000);
/// ```
pub struct GlobalHeap {
    options: Options<'static>,
    heap: AtomicPtr<strata_heap>, // null until the first allocation
}

impl GlobalHeap {
    pub const fn new(options: Options<'static>) -> Self {
        Self { options, heap: AtomicPtr::new(ptr::null_mut()) }
    }

    /// True if the address lies anywhere in this heap's memory.
    pub fn owns<T>(&self, address: *const T) -> bool {
        let heap = self.heap.load(Ordering::Acquire);
        // SAFETY: a heap, once made, stays.
        !heap.is_null() && unsafe { strata_heap_owns(heap, address.cast()) }
    }

    /// All zero before the first allocation.
    pub fn statistics(&self) -> strata_heap_statistics {
        let heap = self.heap.load(Ordering::Acquire);
        if heap.is_null() {
            return strata_heap_statistics::default();
        }
        statistics_of(HeapInC(heap))
    }

    /// All figures as one JSON document, described by docs/stats-schema.json.
    pub fn statistics_json(&self) -> String {
        match self.made() {
            // SAFETY: a heap, once made, stays; the buffer has `size` bytes.
            Some(heap) => by_layout::text_of(|buffer, size| unsafe {
                strata_heap_stats_json(heap.0, buffer, size)
            }),
            None => String::new(),
        }
    }

    /// Returns all idle memory to the kernel; true if there was any.
    pub fn release_memory(&self) -> bool {
        let heap = self.heap.load(Ordering::Acquire);
        // SAFETY: a heap, once made, stays.
        !heap.is_null() && unsafe { strata_heap_release_memory(heap) }
    }

    /// None if no heap could be made: its limits contradict each other, or memory is out.
    #[inline]
    fn made(&self) -> Option<HeapInC> {
        let heap = self.heap.load(Ordering::Acquire);
        if heap.is_null() {
            return self.make();
        }
        Some(HeapInC(heap))
    }

    #[cold]
    fn make(&self) -> Option<HeapInC> {
        let made = create(&self.options).ok()?.as_ptr();
        let first =
            self.heap.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        Some(HeapInC(match first {
            Ok(_) => made,
            Err(other) => {
                // SAFETY: no other thread has seen it.
                unsafe { strata_heap_destroy(made) };
                other
            }
        }))
    }

    /// The heap of a live block.
    #[inline]
    fn in_use(&self) -> HeapInC {
        HeapInC(self.heap.load(Ordering::Acquire))
    }
}

// SAFETY: as for Heap; the heap of a block was made before the block.
unsafe impl GlobalAlloc for GlobalHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.made().map_or(ptr::null_mut(), |heap| unsafe { by_layout::alloc(&heap, layout) })
    }
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { by_layout::dealloc(&self.in_use(), block, layout) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.made()
            .map_or(ptr::null_mut(), |heap| unsafe { by_layout::alloc_zeroed(&heap, layout) })
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        unsafe { by_layout::realloc(&self.in_use(), block, layout, bytes) }
    }
}
