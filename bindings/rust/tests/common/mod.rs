//! What holds under every global allocator.

#[repr(align(4096))]
struct Page([u8; 4096]);

#[test]
fn over_aligned_types_are_aligned_and_grow() {
    let mut pages = Vec::new();
    for mark in 0..100 {
        pages.push(Page([mark; 4096]));
    }
    assert_eq!(pages.as_ptr() as usize % 4096, 0);
    assert!(pages.iter().enumerate().all(|(i, page)| page.0 == [i as u8; 4096]));
}
