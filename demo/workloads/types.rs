// For a compiler: collections of several types, sorted and printed.
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, Default)]
struct Entry {
    name: String,
    numbers: Vec<u32>,
    shares: BTreeMap<String, f64>,
}

pub fn sums() -> Vec<(String, u32)> {
    let mut entries: HashMap<String, Entry> = HashMap::new();
    for i in 0..100u32 {
        let entry = entries.entry(format!("{}", i % 7)).or_default();
        entry.name = format!("entry {i}");
        entry.numbers.push(i);
        entry.shares.insert(format!("{:04x}", i * 7919), f64::from(i) / 3.0);
    }
    let mut sums: Vec<_> = entries.iter().map(|(key, entry)| (key.clone(), entry.numbers.iter().sum())).collect();
    sums.sort();
    println!("{:?} {:?}", sums, entries.values().next());
    sums
}
