// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is known after files have changed.

use std::time::Duration;

use guideway::control::files::{FileSource, Place, MAX_BYTES};
use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::{Known, ShardList};
use serde_json::json;

use crate::{list, shard, Directory};

const SECOND: Duration = Duration::from_secs(1);

fn of_directory(directory: &Directory) -> FileSource {
    FileSource::new(Place::Directory(directory.path().to_owned())).expect("a source")
}

/// Names of the shards that are listed, in order.
fn names(list: &ShardList) -> Vec<&str> {
    let mut names: Vec<_> = list
        .shards
        .iter()
        .map(|shard| shard.name.as_str())
        .collect();
    names.sort_unstable();
    names
}

#[track_caller]
fn assert_known(source: &mut FileSource, wanted: &[&str]) {
    source.refresh(SECOND);
    match source.latest() {
        Known::Known(list) => assert_eq!(names(&list), wanted),
        other => panic!("{other:?}"),
    }
    assert_eq!(source.failure(), None);
}

#[track_caller]
fn assert_unknown(source: &mut FileSource, words: &str) {
    source.refresh(SECOND);
    assert_eq!(source.latest(), Known::Unknown);
    let why = source.failure().expect("a reason");
    assert!(why.contains(words), "{why}");
}

/// Stale with these shards, and since when.
#[track_caller]
fn assert_stale(source: &mut FileSource, now: Duration, wanted: &[&str], words: &str) -> Duration {
    source.refresh(now);
    let Known::Stale { value, since, why } = source.latest() else {
        panic!("{:?}", source.latest());
    };
    assert_eq!(names(&value), wanted);
    assert!(why.contains(words), "{why}");
    assert_eq!(source.failure(), Some(why));
    since
}

#[test]
fn nothing_is_known_before_the_first_reading() {
    let directory = Directory::new("first");
    let source = of_directory(&directory);
    assert_eq!(source.latest(), Known::Unknown);
}

#[test]
fn an_empty_directory_is_known_to_be_empty_and_a_missing_one_is_unknown() {
    let directory = Directory::new("empty");
    assert_known(&mut of_directory(&directory), &[]);
    let missing = directory.join("missing");
    let mut source = FileSource::new(Place::Directory(missing.clone())).expect("a source");
    assert_unknown(&mut source, missing.to_str().expect("text"));
    assert_eq!(source.errors().get(SourceErrorReason::Gone), 1);
    // Each attempt counts.
    assert_unknown(&mut source, "cannot list it");
    assert_eq!(source.errors().get(SourceErrorReason::Gone), 2);
    std::fs::create_dir(&missing).expect("made");
    assert_known(&mut source, &[]);
    // What is there is no directory.
    directory.write("file", "{}");
    let file = Place::Directory(directory.join("file"));
    assert_unknown(
        &mut FileSource::new(file).expect("a source"),
        "cannot list it",
    );
}

#[test]
fn only_manifests_count_and_their_names_do_not() {
    let directory = Directory::new("names");
    directory.write("z.json", shard("a", 0x10));
    directory.write("b.json", list(&[shard("b", 0x11), shard("c", 0x12)]));
    for other in ["a.yaml", ".hidden.json", "c.json.tmp", "json"] {
        directory.write(other, "no manifest");
    }
    std::fs::create_dir(directory.join("below.json")).expect("made");
    directory.write("below.json/x.json", shard("x", 0x13));
    assert_known(
        &mut of_directory(&directory),
        &["edge/a", "edge/b", "edge/c"],
    );
}

#[test]
fn files_that_come_change_and_go_take_their_shards_along() {
    let directory = Directory::new("change");
    let mut source = of_directory(&directory);
    assert_known(&mut source, &[]);
    directory.write("a.json", shard("a", 0x10));
    directory.write("b.json", shard("b", 0x11));
    assert_known(&mut source, &["edge/a", "edge/b"]);
    let mut draining = shard("a", 0x10);
    draining["spec"]["drain"] = json!(true);
    directory.replace("a.json", draining);
    assert_known(&mut source, &["edge/a", "edge/b"]);
    let latest = source.latest();
    let shards = &latest.value().expect("a list").shards;
    assert_eq!(shards.iter().filter(|shard| shard.drain).count(), 1);
    directory.remove("a.json");
    assert_known(&mut source, &["edge/b"]);
    directory.remove("b.json");
    assert_known(&mut source, &[]);
}

#[test]
fn a_file_that_is_no_json_keeps_its_last_shards_and_makes_the_list_stale() {
    let directory = Directory::new("broken");
    let mut source = of_directory(&directory);
    directory.write("a.json", list(&[shard("a", 0x10), shard("b", 0x11)]));
    directory.write("c.json", shard("c", 0x12));
    assert_known(&mut source, &["edge/a", "edge/b", "edge/c"]);
    // Half a file, as of a writer that does not rename.
    let whole = format!("{:#}", list(&[shard("a", 0x10)]));
    directory.write("a.json", &whole[..whole.len() / 2]);
    let all = ["edge/a", "edge/b", "edge/c"];
    let line = whole[..whole.len() / 2].lines().count();
    let place = format!("{}:{line}: is not JSON", directory.join("a.json").display());
    assert_eq!(
        assert_stale(&mut source, 5 * SECOND, &all, &place),
        5 * SECOND
    );
    // Since the first time, and other files are read on.
    directory.remove("c.json");
    let since = assert_stale(&mut source, 9 * SECOND, &["edge/a", "edge/b"], &place);
    assert_eq!(since, 5 * SECOND);
    assert_eq!(source.errors().get(SourceErrorReason::Parse), 2);
    directory.write("a.json", &whole);
    assert_known(&mut source, &["edge/a"]);
    // A new failure begins anew.
    directory.write("a.json", "");
    let since = assert_stale(
        &mut source,
        20 * SECOND,
        &["edge/a"],
        "a.json:1: is not JSON",
    );
    assert_eq!(since, 20 * SECOND);
    directory.remove("a.json");
    assert_known(&mut source, &[]);
}

#[test]
fn without_a_complete_list_nothing_is_known() {
    let directory = Directory::new("never");
    let mut source = of_directory(&directory);
    directory.write("a.json", shard("a", 0x10));
    directory.write("b.json", "{\"kind\":");
    assert_unknown(&mut source, "b.json:1: is not JSON");
    directory.replace("b.json", shard("b", 0x11));
    assert_known(&mut source, &["edge/a", "edge/b"]);
    // A new file that was never good has nothing to keep.
    directory.write("c.json", "[]");
    assert_stale(
        &mut source,
        SECOND,
        &["edge/a", "edge/b"],
        "c.json:1: must be an object",
    );
}

#[test]
fn a_directory_that_disappears_leaves_its_last_list() {
    let directory = Directory::new("gone");
    let inner = directory.join("inner");
    std::fs::create_dir(&inner).expect("made");
    directory.write("inner/a.json", shard("a", 0x10));
    let mut source = FileSource::new(Place::Directory(inner.clone())).expect("a source");
    assert_known(&mut source, &["edge/a"]);
    std::fs::rename(&inner, directory.join("other")).expect("renamed");
    assert_stale(&mut source, SECOND, &["edge/a"], "cannot list it");
    std::fs::create_dir(&inner).expect("made");
    assert_known(&mut source, &[]);
}

#[test]
fn one_file_is_a_source_too() {
    let directory = Directory::new("single");
    let place = Place::File(directory.join("shards"));
    let mut source = FileSource::new(place).expect("a source");
    assert_unknown(&mut source, "cannot open it");
    directory.write("shards", "");
    assert_unknown(&mut source, "shards:1: is not JSON");
    directory.replace("shards", list(&[shard("a", 0x10), shard("b", 0x11)]));
    assert_known(&mut source, &["edge/a", "edge/b"]);
    directory.replace("shards", list(&[]));
    assert_known(&mut source, &[]);
    directory.replace("shards", shard("a", 0x10));
    assert_known(&mut source, &["edge/a"]);
    directory.remove("shards");
    assert_stale(&mut source, SECOND, &["edge/a"], "cannot open it");
}

#[test]
fn an_object_at_fault_leaves_the_list_known_and_is_counted() {
    let directory = Directory::new("fault");
    let mut bad = shard("bad", 0x11);
    bad["status"]["shardSID"] = json!("nonsense");
    directory.write("a.json", format!("{:#}", list(&[shard("a", 0x10), bad])));
    let mut source = of_directory(&directory);
    assert_known(&mut source, &["edge/a"]);
    let latest = source.latest();
    let faults = &latest.value().expect("a list").faults;
    let [fault] = &faults[..] else {
        panic!("{faults:?}");
    };
    let (file, line) = fault.at.as_ref().expect("a place");
    assert_eq!(*file, directory.join("a.json").display().to_string());
    let text = std::fs::read_to_string(directory.join("a.json")).expect("a file");
    assert!(text
        .lines()
        .nth(line - 1)
        .expect("a line")
        .contains("nonsense"));
    assert_eq!(fault.name, "edge/bad");
    assert_eq!(source.errors().get(SourceErrorReason::Parse), 1);
}

#[test]
fn links_are_followed_and_what_is_no_file_never_blocks() {
    let directory = Directory::new("links");
    std::fs::create_dir(directory.join("..v1")).expect("made");
    std::fs::create_dir(directory.join("..v2")).expect("made");
    directory.write("..v1/a.json", shard("a", 0x10));
    directory.write("..v2/a.json", shard("b", 0x11));
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, directory.join(name)).expect("linked");
    };
    link("..v1", "..data");
    link("..data/a.json", "a.json");
    let mut source = of_directory(&directory);
    assert_known(&mut source, &["edge/a"]);
    link("..v2", "..next");
    std::fs::rename(directory.join("..next"), directory.join("..data")).expect("renamed");
    assert_known(&mut source, &["edge/b"]);
    // A link to nothing is a file that cannot be read, not one that is gone.
    std::fs::remove_file(directory.join("..data")).expect("removed");
    assert_stale(&mut source, SECOND, &["edge/b"], "a.json: cannot open it");
    directory.remove("a.json");
    nix::unistd::mkfifo(&directory.join("pipe.json"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    assert_stale(&mut source, SECOND, &[], "pipe.json: is no regular file");
}

#[test]
fn a_file_without_end_is_not_read() {
    let directory = Directory::new("large");
    let file = std::fs::File::create(directory.join("a.json")).expect("made");
    file.set_len(MAX_BYTES + 1).expect("a hole");
    assert_unknown(
        &mut of_directory(&directory),
        "has more than 16777216 bytes",
    );
}

#[test]
fn many_broken_files_make_one_short_text() {
    let directory = Directory::new("many");
    for number in 0..50 {
        directory.write(&format!("{number:02}.json"), "");
    }
    let mut source = of_directory(&directory);
    assert_unknown(&mut source, "and 46 more");
    assert!(source.failure().expect("a reason").len() < 1000);
    assert_eq!(source.errors().get(SourceErrorReason::Parse), 50);
    let total: u64 = source.errors().iter().map(|(_, count)| count).sum();
    assert_eq!(total, 50);
}

#[test]
fn the_text_of_a_place_names_kind_and_path() {
    assert_eq!(Place::Directory("/etc/x".into()).to_string(), "dir:/etc/x");
    assert_eq!(Place::File("x.json".into()).to_string(), "file:x.json");
}
