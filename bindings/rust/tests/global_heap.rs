//! A program whose global allocator is a heap.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::thread;
use strata::{GlobalHeap, Options};

const LIMIT: usize = 256 << 20;

#[global_allocator]
static GLOBAL: GlobalHeap = GlobalHeap::new(Options::new().name("rust").hard_limit(LIMIT));

#[test]
fn collections_live_in_the_heap() {
    let numbers: Vec<u64> = (0..100_000).collect();
    let words: HashMap<u64, String> =
        numbers.iter().take(1000).map(|n| (*n, n.to_string())).collect();
    let sorted: BTreeMap<&str, u64> = words.iter().map(|(n, word)| (word.as_str(), *n)).collect();
    assert_eq!(sorted["999"], 999);
    assert!(GLOBAL.owns(numbers.as_ptr()) && GLOBAL.owns(words[&7].as_ptr()));
    assert!(GLOBAL.statistics().live >= 800_000);
}

#[test]
fn threads_come_and_go() {
    for _ in 0..20 {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                thread::spawn(move || (0..1000).map(|n| format!("{i}.{n}")).collect::<Vec<_>>())
            })
            .collect();
        for (i, thread) in threads.into_iter().enumerate() {
            let words = thread.join().unwrap();
            assert_eq!(words[999], format!("{i}.999"));
        }
    }
}

#[test]
fn a_refusal_reaches_the_program_as_an_error() {
    let mut bytes: Vec<u8> = Vec::new();
    assert!(bytes.try_reserve_exact(2 * LIMIT).is_err());
    assert!(GLOBAL.statistics().refusals > 0);
    assert!(bytes.try_reserve_exact(1000).is_ok());
}

#[test]
fn the_document_has_the_name() {
    assert!(GLOBAL.statistics_json().contains("\"rust\""));
    GLOBAL.release_memory();
}
