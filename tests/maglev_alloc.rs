// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A build with a scratch that has been used before allocates nothing, and no scratch is larger
//! than it need be.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use guideway::maglev::{build_into, Member, Scratch, SlotIndex, TableSize};

thread_local! {
    // Per thread, so that the test harness's own threads do not count.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: every call goes to the system's allocator as it is; counting neither allocates nor
// unwinds, since the counters are constants without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations during `work`, and bytes asked for.
fn allocations(work: impl FnOnce()) -> (usize, usize) {
    let before = (ALLOCATIONS.get(), BYTES.get());
    work();
    (ALLOCATIONS.get() - before.0, BYTES.get() - before.1)
}

fn keys(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("10.0.{}.{}", number / 256, number % 256))
        .collect()
}

fn members<S: SlotIndex + TryFrom<usize>>(
    keys: &[String],
    weight: impl Fn(usize) -> u32,
) -> Vec<Member<'_, S>> {
    let index = |number| S::try_from(number).ok().expect("a small index");
    keys.iter()
        .enumerate()
        .map(|(number, key)| Member::new(key.as_bytes(), index(number), weight(number)))
        .collect()
}

fn build<S: SlotIndex>(scratch: &mut Scratch, out: &mut [S], members: &[Member<'_, S>]) {
    let size = TableSize::new(out.len() as u32).expect("a prime");
    build_into(out, scratch, size, members).expect("valid members");
}

#[test]
fn the_counter_counts() {
    let (count, bytes) = allocations(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(100))));
    assert_eq!((count, bytes), (1, 100));
}

#[test]
fn nothing_is_allocated_after_a_build_of_the_same_size_or_a_larger_one() {
    let keys = keys(1000);
    let equal = members::<u16>(&keys, |_| 1);
    // Not used before: other weights, an order to sort, and no part for some.
    let mut other = members::<u16>(&keys, |number| (number as u32).wrapping_mul(2_654_435_761));
    other.reverse();
    other[7].eligible = false;
    let wide = members::<u32>(
        &keys[..400],
        |number| if number == 9 { u32::MAX } else { 1 },
    );

    let mut scratch = Scratch::new();
    let (mut large, mut small) = (vec![0; 65_537], vec![0; 16_381]);
    let mut wide_out = vec![0; 65_537];
    let first = allocations(|| build(&mut scratch, &mut large, &equal));
    assert!(first.0 > 0, "a new scratch has no memory yet");
    let later = allocations(|| {
        build(&mut scratch, &mut large, &equal);
        build(&mut scratch, &mut large, &other);
        build(&mut scratch, &mut small, &other[..100]);
        build(&mut scratch, &mut wide_out, &wide);
        build(&mut scratch, &mut large, &other[..1]);
        build(&mut scratch, &mut large, &[]);
        build(&mut scratch, &mut large, &equal);
    });
    assert_eq!(later, (0, 0));
}

#[test]
fn a_scratch_with_capacity_allocates_nothing_at_all() {
    for (count, slots) in [(1, 2), (3, 1021), (100, 65_537), (1021, 1021)] {
        let keys = keys(count);
        let members = members::<u16>(&keys, |number| number as u32 + 1);
        let mut out = vec![0; slots];
        let size = TableSize::new(slots as u32).expect("a prime");
        let mut scratch = Scratch::with_capacity(size, count);
        let during = allocations(|| build(&mut scratch, &mut out, &members));
        assert_eq!(during, (0, 0), "{count} members, {slots} slots");
    }
}

#[test]
fn a_refused_build_allocates_nothing_but_its_error() {
    let keys = keys(100);
    let mut members = members::<u16>(&keys, |_| 1);
    members[99].index = 5;
    let mut scratch = Scratch::with_capacity(TableSize::SHARD, 100);
    let mut out = vec![0; 1021];
    let during = allocations(|| {
        let result = build_into(&mut out, &mut scratch, TableSize::SHARD, &members);
        assert!(result.is_err());
    });
    assert_eq!(during, (0, 0));
}

/// Beyond the output: an eighth of a byte per slot, 64 bytes per member, and 16 KiB.
#[test]
fn working_memory_is_bounded() {
    let sizes = [
        (10, 1021),
        (10, 65_537),
        (1000, 65_537),
        (1000, 655_373),
        (20_000, 2_097_143),
        (1021, 1021),
    ];
    for (count, slots) in sizes {
        let keys = keys(count);
        let members = members::<u32>(&keys, |number| number as u32 % 100 + 1);
        let mut out = vec![0; slots];
        let mut scratch = Scratch::new();
        let (_, bytes) = allocations(|| build(&mut scratch, &mut out, &members));
        let bound = slots / 8 + 64 * count + 16 * 1024;
        assert!(
            bytes <= bound,
            "{count} members, {slots} slots: {bytes} bytes of {bound}"
        );
    }
}
