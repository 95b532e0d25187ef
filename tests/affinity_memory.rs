// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reading a document of bindings holds the bindings and nothing else, whatever the document holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;

use guideway::affinity::{CidBinding, ReadOptions};
use guideway::quiclb::read_affinity;

thread_local! {
    // Per thread, so that the test harness's own threads do not count.
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn taken(bytes: usize) {
    // What another thread allocated may be freed here.
    HELD.set(HELD.get().saturating_add(bytes));
    PEAK.set(PEAK.get().max(HELD.get()));
}

fn given(bytes: usize) {
    HELD.set(HELD.get().saturating_sub(bytes));
}

// SAFETY: every call goes to the system's allocator as it is; counting neither allocates nor
// unwinds, since the counters are constants without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        given(layout.size());
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be there for a moment.
        taken(size);
        given(layout.size());
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A document that is made while it is read: a beginning, something so many times, an end.
struct Made {
    begin: &'static [u8],
    each: &'static [u8],
    times: usize,
    end: &'static [u8],
    at: usize,
}

impl Read for Made {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let part = if self.at < self.begin.len() {
            &self.begin[self.at..]
        } else {
            let at = self.at - self.begin.len();
            if at / self.each.len() < self.times {
                &self.each[at % self.each.len()..]
            } else {
                let at = at - self.times * self.each.len();
                &self.end[at.min(self.end.len())..]
            }
        };
        let count = part.len().min(to.len());
        to[..count].copy_from_slice(&part[..count]);
        self.at += count;
        Ok(count)
    }
}

const HEAD: &str = r#"{"schema": "guideway.affinity/v1", "exported_at": "2026-07-31T08:00:00Z",
    "instance": "x", "services": [{"id": 7, "name": "a", "vip": "203.0.113.80", "port": 443,
    "protocol": "udp", "bindings": ["#;

/// Most bytes that reading `document` held at once, and the bindings it gave.
fn peak(document: Made, limit_bytes: u64) -> (usize, Result<usize, String>) {
    let mut options = ReadOptions::default();
    options.limit_bytes = limit_bytes;
    let before = HELD.get();
    PEAK.set(before);
    let read = read_affinity(document, &options);
    let peak = PEAK.get() - before;
    (
        peak,
        read.map(|document| document.bindings())
            .map_err(|error| error.to_string()),
    )
}

#[test]
fn what_is_held_are_the_bindings() {
    let times = 200_000;
    let document = Made {
        begin: HEAD.as_bytes(),
        each: br#"{"cid": "c46001c46001c46001c46001c46001c46001c460", "backend": 4294967295,
            "origin": "registered", "last_seen_ns": 18446744073709551615},"#,
        times,
        end: br#"{"cid": "00", "backend": 1, "origin": "learned", "last_seen_ns": 0}]}]}"#,
        at: 0,
    };
    let text_bytes = document.each.len() * times;
    let (peak, read) = peak(document, 1 << 30);
    assert_eq!(read, Ok(times + 1));
    // A growing list may be there twice for a moment, the larger one with twice the room.
    let bindings = (times + 1) * size_of::<CidBinding>();
    assert!(size_of::<CidBinding>() <= 40);
    assert!(
        peak < 3 * bindings + (256 << 10),
        "{peak} bytes for {bindings} of bindings in {text_bytes} of text"
    );
}

#[test]
fn what_is_passed_over_or_refused_is_never_held() {
    let endless = usize::MAX / 1024;
    let cases: [(&'static str, &'static str, &str); 7] = [
        ("", " ", "is longer than 4000000 bytes"),
        ("{\"schema\": \"", "x", "has a text of more than 4096 bytes"),
        ("{\"note\": [", "0,", "is longer than 4000000 bytes"),
        ("{\"note\": [", "\"x\",", "is longer than 4000000 bytes"),
        (
            "{\"note\": [",
            "{\"a\":[{}]},",
            "is longer than 4000000 bytes",
        ),
        ("{\"note\": ", "[", "is nested more than 64 deep"),
        ("{\"note\": ", "{\"a\":", "is nested more than 64 deep"),
    ];
    for (begin, each, reason) in cases {
        let document = Made {
            begin: begin.as_bytes(),
            each: each.as_bytes(),
            times: endless,
            end: b"",
            at: 0,
        };
        let (peak, read) = peak(document, 4_000_000);
        let error = read.expect_err("endless");
        assert!(error.starts_with(reason), "{begin}{each}: {error}");
        assert!(peak < 256 << 10, "{begin}{each}: {peak} bytes");
    }
}
