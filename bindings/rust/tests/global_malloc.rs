//! A program whose malloc is Strata's: that of Rust and that of C.

mod common;

use std::os::raw::{c_char, c_void};
use std::thread;

#[global_allocator]
static GLOBAL: strata::Malloc = strata::Malloc;

extern "C" {
    fn strata_usable_size(block: *const c_void) -> usize;
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(block: *mut c_void);
}

#[test]
fn collections_are_in_it() {
    let mut numbers: Vec<u64> = Vec::new();
    for number in 0..100_000 {
        numbers.push(number);
    }
    assert_eq!(numbers[99_999], 99_999);
    assert!(unsafe { strata_usable_size(numbers.as_ptr().cast()) } >= 800_000);
    let zeroed = vec![0u8; 1 << 20];
    assert!(zeroed.iter().all(|byte| *byte == 0));
}

#[test]
fn over_aligned_blocks_of_any_size_are_freed_as_they_were_made() {
    use std::alloc::{alloc, dealloc, realloc, Layout};
    for size in [1, 100, 1112, 5000] {
        for alignment in [32, 512, 4096] {
            let layout = Layout::from_size_align(size, alignment).unwrap();
            unsafe {
                let block = realloc(alloc(layout), layout, size + 1);
                dealloc(block, Layout::from_size_align(size + 1, alignment).unwrap());
            }
        }
    }
}

/// strata_usable_size ends the program for a block of another malloc.
#[test]
fn what_the_c_library_allocates_is_in_it() {
    unsafe {
        let copied = strdup(b"a word of C\0".as_ptr().cast());
        assert!(strata_usable_size(copied.cast()) >= 12);
        free(copied.cast());
    }
}

#[test]
fn threads_come_and_go() {
    let threads: Vec<_> =
        (0..8).map(|i| thread::spawn(move || vec![i; 10_000].into_boxed_slice())).collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap()[9_999], i);
    }
}

#[test]
fn statistics_are_those_of_the_malloc() {
    assert!(strata::Malloc::statistics_json().contains("\"malloc\""));
    strata::Malloc::release_memory();
}
