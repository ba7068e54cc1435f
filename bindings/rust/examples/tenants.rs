//! Two tenants with a heap each: the greedy one is refused at its limit, the other is not affected,
//! and dropping a heap frees all memory of a tenant at once.

use std::alloc::{GlobalAlloc, Layout};
use std::process::ExitCode;
use strata::{Heap, Options};

/// Allocates records until the heap refuses or there are `most`; returns how many there are.
fn fill(heap: &Heap, most: usize) -> usize {
    let record = Layout::new::<[u8; 1000]>();
    (0..most).take_while(|_| !unsafe { heap.alloc(record) }.is_null()).count()
}

fn main() -> ExitCode {
    let limit = 4 << 20;
    let greedy = Heap::new(&Options::new().name("greedy").hard_limit(limit)).expect("a heap");
    let modest = Heap::new(&Options::new().name("modest").hard_limit(limit)).expect("a heap");
    let records = fill(&greedy, 1_000_000);
    let served = fill(&modest, 100);
    for heap in [&greedy, &modest] {
        let now = heap.statistics();
        println!("held {} of {} bytes, {} refusals", now.held, now.hard_limit, now.refusals);
    }
    println!("{records} records for the greedy tenant, {served} for the modest one");
    let is_held = greedy.statistics().held <= limit && greedy.statistics().refusals > 0;
    if is_held && records < 1_000_000 && served == 100 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
} // both heaps end, with every record in them
