// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Being told of changes.

use std::time::Duration;

use guideway::control::files::{FileSource, Place};
use guideway::control::source::Source;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::{shard, Directory};

/// Whether events that matter come within a time; takes note of all that came.
fn told_within(source: &mut FileSource, time: Duration) -> bool {
    let end = std::time::Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        let timeout = PollTimeout::try_from(left).expect("a short time");
        let mut wanted = [PollFd::new(source.events(), PollFlags::POLLIN)];
        if poll(&mut wanted, timeout).expect("a poll") == 0 {
            return false;
        }
        if source.acknowledge() {
            return true;
        }
    }
}

#[track_caller]
fn assert_told(source: &mut FileSource, what: &str) {
    assert!(
        told_within(source, Duration::from_secs(10)),
        "not told: {what}"
    );
    source.refresh(Duration::ZERO);
    // Everything that came with it.
    while source.acknowledge() {}
}

#[track_caller]
fn assert_quiet(source: &mut FileSource, what: &str) {
    assert!(
        !told_within(source, Duration::from_millis(50)),
        "told: {what}"
    );
}

#[test]
fn each_change_of_a_manifest_is_told_and_no_other() {
    let directory = Directory::new("told");
    let place = Place::Directory(directory.path().to_owned());
    let mut source = FileSource::new(place).expect("a source");
    source.refresh(Duration::ZERO);
    assert_quiet(&mut source, "nothing happened");
    directory.write("a.json", shard("a", 0x10));
    assert_told(&mut source, "a new file");
    directory.write("b.json.tmp", shard("b", 0x10));
    assert_quiet(&mut source, "no manifest yet");
    std::fs::rename(directory.join("b.json.tmp"), directory.join("b.json")).expect("renamed");
    assert_told(&mut source, "a file renamed");
    directory.write("b.json", shard("b", 0x11));
    assert_told(&mut source, "a file written in place");
    assert_quiet(&mut source, "reading is no change");
    directory.remove("b.json");
    assert_told(&mut source, "a file removed");
    std::os::unix::fs::symlink("a.json", directory.join("..data")).expect("linked");
    assert_told(&mut source, "a link that others lead through");
}

#[test]
fn events_stay_until_they_are_acknowledged() {
    let directory = Directory::new("pending");
    let place = Place::Directory(directory.path().to_owned());
    let mut source = FileSource::new(place).expect("a source");
    source.refresh(Duration::ZERO);
    directory.write("a.json", shard("a", 0x10));
    source.refresh(Duration::ZERO);
    for _ in 0..3 {
        let mut wanted = [PollFd::new(source.events(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut wanted, PollTimeout::from(10_000_u16)), Ok(1));
    }
    assert!(source.acknowledge());
    assert!(!source.acknowledge());
}

#[test]
fn a_place_that_appears_is_told_however_much_of_its_path_is_missing() {
    let directory = Directory::new("appears");
    let deep = directory.join("one/two");
    for (place, file) in [
        (Place::Directory(deep.clone()), "one/two/a.json"),
        (Place::File(deep.join("shards")), "one/two/shards"),
    ] {
        let mut source = FileSource::new(place).expect("a source");
        source.refresh(Duration::ZERO);
        directory.write("noise.json", "");
        assert_quiet(&mut source, "not on the way");
        std::fs::create_dir(directory.join("one")).expect("made");
        assert_told(&mut source, "a directory on the way");
        std::fs::create_dir(&deep).expect("made");
        assert_told(&mut source, "the directory");
        directory.write(file, shard("a", 0x10));
        assert_told(&mut source, "the file");
        assert!(source.latest().is_current());
        // Another directory in its place is watched in turn.
        std::fs::rename(directory.join("one"), directory.join("old")).expect("renamed");
        std::fs::create_dir_all(&deep).expect("made");
        source.refresh(Duration::ZERO);
        while source.acknowledge() {}
        directory.write(file, shard("b", 0x10));
        assert_told(&mut source, "the file in the new directory");
        std::fs::remove_dir_all(directory.join("one")).expect("removed");
        std::fs::remove_dir_all(directory.join("old")).expect("removed");
        source.refresh(Duration::ZERO);
    }
}

#[test]
fn of_a_directory_full_of_others_only_the_file_is_told() {
    let directory = Directory::new("one");
    let mut source = FileSource::new(Place::File(directory.join("s.json"))).expect("a source");
    source.refresh(Duration::ZERO);
    directory.write("other.json", "");
    assert_quiet(&mut source, "another file");
    directory.replace("s.json", shard("a", 0x10));
    assert_told(&mut source, "the file");
}
