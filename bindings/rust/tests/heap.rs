//! A heap beside the global allocator: its promises about blocks, limits and its end.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::mpsc;
use std::thread;
use strata::{Heap, HugePages, Options};

fn heap() -> Heap {
    Heap::new(&Options::new().name("tests")).expect("a heap")
}

fn layout(bytes: usize, alignment: usize) -> Layout {
    Layout::from_size_align(bytes, alignment).unwrap()
}

/// A block and its expected contents.
struct Block {
    start: *mut u8,
    layout: Layout,
    mark: u8,
}

impl Block {
    fn is_whole(&self) -> bool {
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) };
        bytes.iter().all(|byte| *byte == self.mark)
    }
}

/// xorshift, from a printed seed that STRATA_SEED sets.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = std::env::var("STRATA_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(20261122);
        println!("STRATA_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn blocks_of_any_layout_are_aligned_and_keep_what_is_in_them() {
    let usual = Options::new();
    for options in [
        usual,
        Options { checks_fully: true, ..usual },
        Options { checks_frees: true, huge_pages: HugePages::Never, ..usual },
        Options { guard_rate: 50, huge_pages: HugePages::Always, ..usual },
    ] {
        let heap = Heap::new(&options).expect("a heap");
        let mut random = Random::seeded();
        let mut blocks: Vec<Block> = Vec::new();
        for step in 0..4_000 {
            if blocks.len() < 100 && random.below(2) == 0 {
                let layout = layout(1 + random.below(5000), 1 << random.below(13));
                let is_zeroed = random.below(2) == 0;
                let start = unsafe {
                    if is_zeroed {
                        heap.alloc_zeroed(layout)
                    } else {
                        heap.alloc(layout)
                    }
                };
                assert_eq!(start as usize % layout.align(), 0, "{layout:?}");
                let mut block = Block { start, layout, mark: 0 };
                assert!(!is_zeroed || block.is_whole(), "{layout:?} is not zero");
                block.mark = step as u8;
                unsafe { ptr::write_bytes(start, block.mark, layout.size()) };
                blocks.push(block);
                continue;
            }
            if blocks.is_empty() {
                continue;
            }
            let chosen = random.below(blocks.len());
            let block = &mut blocks[chosen];
            assert!(block.is_whole() && heap.owns(block.start));
            if random.below(2) == 0 {
                let bytes = 1 + random.below(9000);
                block.start = unsafe { heap.realloc(block.start, block.layout, bytes) };
                let kept = block.layout.size().min(bytes);
                block.layout = layout(bytes, block.layout.align());
                assert_eq!(block.start as usize % block.layout.align(), 0);
                let whole = Block { layout: layout(kept, 1), ..*block };
                assert!(whole.is_whole(), "realloc to {:?}", block.layout);
                unsafe { ptr::write_bytes(block.start, block.mark, bytes) };
            } else {
                let block = blocks.swap_remove(chosen);
                unsafe { heap.dealloc(block.start, block.layout) };
            }
        }
        for block in blocks {
            assert!(block.is_whole());
            unsafe { heap.dealloc(block.start, block.layout) };
        }
        assert_eq!(heap.statistics().live, 0);
    }
}

#[test]
fn the_hard_limit_is_an_answer_and_not_the_end() {
    let heap = Heap::new(&Options::new().hard_limit(2 << 20)).expect("a heap");
    assert!(unsafe { heap.alloc(layout(4 << 20, 8)) }.is_null());
    assert!(unsafe { heap.alloc_zeroed(layout(4 << 20, 4096)) }.is_null());
    let small = unsafe { heap.alloc(layout(100, 8)) };
    assert!(!small.is_null());
    for alignment in [8, 64] {
        assert!(unsafe { heap.realloc(small, layout(100, alignment), 4 << 20) }.is_null());
    }
    unsafe { heap.dealloc(small, layout(100, 8)) };
    let statistics = heap.statistics();
    assert!(statistics.refusals > 0 && statistics.held <= statistics.hard_limit);
}

#[test]
fn limits_that_contradict_each_other_are_refused_with_a_sentence() {
    let options = Options { soft_limit: 2 << 20, hard_limit: 1 << 20, ..Options::new() };
    let reason = Heap::new(&options).err().expect("a refusal");
    assert!(reason.contains("limit"), "{reason}");
}

#[test]
fn a_long_name_is_cut_between_its_characters() {
    let name = "a".repeat(30) + "ß";
    let heap = Heap::new(&Options::new().name(&name)).expect("a heap");
    let said = heap.statistics_json();
    assert!(said.contains(&format!("\"{}\"", "a".repeat(30))), "{said}");
}

#[test]
fn a_block_may_be_freed_by_another_thread() {
    let heap = heap();
    let small = layout(64, 8);
    let (sender, receiver) = mpsc::channel::<usize>();
    thread::scope(|scope| {
        scope.spawn(|| {
            for block in receiver {
                unsafe { heap.dealloc(block as *mut u8, small) };
            }
        });
        for _ in 0..10_000 {
            sender.send(unsafe { heap.alloc(small) } as usize).unwrap();
        }
        drop(sender);
    });
    assert_eq!(heap.statistics().live, 0);
}

#[test]
fn heaps_tell_their_blocks_apart_and_reset_frees_all() {
    let (one, other) = (heap(), heap());
    let block = unsafe { one.alloc(layout(100, 8)) };
    let boxed = Box::new(7);
    assert!(one.owns(block) && !other.owns(block) && !one.owns(&*boxed));
    assert!(one.statistics().live > 0);
    unsafe { one.reset() };
    assert_eq!(one.statistics().live, 0);
    one.release_memory();
    let statistics = one.statistics();
    assert_eq!(statistics.free, 0);
    assert_eq!(statistics.held, statistics.mapped - statistics.returned);
}
