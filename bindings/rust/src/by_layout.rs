//! Serves a `Layout` with the functions of C: an alignment up to 16 needs no function of its own.

use std::alloc::Layout;
use std::os::raw::{c_char, c_void};
use std::ptr;

/// The alignment of malloc, calloc and realloc.
const PLAIN_ALIGNMENT: usize = 16;

/// The functions of C over one heap or over the malloc.
///
/// # Safety
/// Each does what its counterpart in C does; `free`, `free_sized` and `realloc` get live blocks of
/// `self`.
pub(crate) unsafe trait InC {
    unsafe fn malloc(&self, bytes: usize) -> *mut c_void;
    unsafe fn calloc(&self, bytes: usize) -> *mut c_void;
    unsafe fn aligned_alloc(&self, alignment: usize, bytes: usize) -> *mut c_void;
    unsafe fn realloc(&self, block: *mut c_void, bytes: usize) -> *mut c_void;
    unsafe fn free(&self, block: *mut c_void);
    /// Not for blocks of `aligned_alloc`, whose size does not tell their size class.
    unsafe fn free_sized(&self, block: *mut c_void, bytes: usize);
}

#[inline]
pub(crate) unsafe fn alloc(c: &impl InC, layout: Layout) -> *mut u8 {
    unsafe {
        if layout.align() <= PLAIN_ALIGNMENT {
            c.malloc(layout.size()).cast()
        } else {
            c.aligned_alloc(layout.align(), layout.size()).cast()
        }
    }
}

#[inline]
pub(crate) unsafe fn alloc_zeroed(c: &impl InC, layout: Layout) -> *mut u8 {
    unsafe {
        if layout.align() <= PLAIN_ALIGNMENT {
            return c.calloc(layout.size()).cast();
        }
        let block: *mut u8 = c.aligned_alloc(layout.align(), layout.size()).cast();
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }
}

#[inline]
pub(crate) unsafe fn realloc(
    c: &impl InC,
    block: *mut u8,
    layout: Layout,
    bytes: usize,
) -> *mut u8 {
    unsafe {
        if layout.align() <= PLAIN_ALIGNMENT {
            return c.realloc(block.cast(), bytes).cast();
        }
        let moved: *mut u8 = c.aligned_alloc(layout.align(), bytes).cast();
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
            c.free(block.cast());
        }
        moved
    }
}

#[inline]
pub(crate) unsafe fn dealloc(c: &impl InC, block: *mut u8, layout: Layout) {
    unsafe {
        if layout.align() <= PLAIN_ALIGNMENT {
            c.free_sized(block.cast(), layout.size())
        } else {
            c.free(block.cast())
        }
    }
}

/// The whole output of `write`, which works like snprintf.
pub(crate) fn text_of(write: impl Fn(*mut c_char, usize) -> usize) -> String {
    let mut buffer = vec![0u8; 16 << 10];
    loop {
        let length = write(buffer.as_mut_ptr().cast(), buffer.len());
        if length < buffer.len() {
            buffer.truncate(length);
            return String::from_utf8_lossy(&buffer).into_owned();
        }
        buffer.resize(length + 1, 0);
    }
}
