// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The barrier on a bpffs, with threads and processes. /proc/locks tells what is locked,
//! independently of the code under test.

#[path = "common/netns.rs"]
mod netns;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use guideway::error::ErrorKind;
use guideway::kernel::write_barrier::{
    BarrierError, ExclusiveGuard, Mode, WriteBarrier, DEFAULT_PATIENCE, GATE, ROUTES,
};
use netns::{isolated, within};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// Long enough to be refused often, short for a test.
const SHORT: Duration = Duration::from_millis(60);

fn state() -> PathBuf {
    Path::new(netns::BPFFS).join("state")
}

fn barrier() -> WriteBarrier {
    WriteBarrier::below(&state())
}

/// Runs a test with a barrier on a bpffs of its own.
fn with_barrier(name: &str, test: impl FnOnce(WriteBarrier) + Send + 'static) {
    isolated(name, || {
        fs::create_dir(state()).expect("a directory");
        barrier().create().expect("the two directories");
        test(barrier());
    });
}

/// What the kernel says is locked of a directory: `READ` or `WRITE`, once for each lock.
fn locks(name: &str) -> Vec<String> {
    // The kernel may list a lock twice, or not, while other tests take and release theirs.
    let mut before = listed(name);
    loop {
        let now = listed(name);
        if now == before {
            return now;
        }
        before = now;
    }
}

fn listed(name: &str) -> Vec<String> {
    let inode = fs::metadata(state().join(name)).expect("a directory").ino();
    let device = fs::metadata(state()).expect("a directory").dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    // In one call: the list is consistent as far as it fits the answer.
    let mut buffer = vec![0; 64 << 10];
    let mut file = fs::File::open("/proc/locks").expect("a file");
    let length = file.read(&mut buffer).expect("read");
    let text = String::from_utf8_lossy(&buffer[..length]);
    let mut kinds: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let ours = words[1] == "FLOCK" && words.contains(&place.as_str());
            ours.then(|| words[3].to_owned())
        })
        .collect();
    kinds.sort();
    kinds
}

const NONE: [&str; 0] = [];

#[track_caller]
fn times_out<T>(result: Result<T, BarrierError>, name: &str, wanted: Mode) {
    let error = result.err().expect("somebody else has it");
    assert_eq!(error.kind(), ErrorKind::Locked);
    let expected = format!(
        "{} was not free for {wanted} use within {} ms",
        state().join(name).display(),
        SHORT.as_millis()
    );
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error, BarrierError::Timeout { mode, .. } if mode == wanted));
}

#[test]
fn shared_guards_are_held_together_and_an_exclusive_one_alone() {
    with_barrier("write_barrier::modes", |barrier| {
        let one = barrier.shared(SHORT).expect("free");
        assert_eq!((locks(GATE).len(), locks(ROUTES)), (0, vec!["READ".into()]));
        let two = barrier.shared(SHORT).expect("beside the other");
        assert_eq!(locks(ROUTES), ["READ", "READ"]);
        times_out(barrier.exclusive(SHORT), ROUTES, Mode::Exclusive);
        drop(one);
        times_out(barrier.exclusive(SHORT), ROUTES, Mode::Exclusive);
        drop(two);

        let alone = barrier.exclusive(SHORT).expect("free");
        assert_eq!(
            (locks(GATE), locks(ROUTES)),
            (vec!["WRITE".into()], vec!["WRITE".into()])
        );
        times_out(barrier.shared(SHORT), GATE, Mode::Shared);
        times_out(barrier.exclusive(SHORT), GATE, Mode::Exclusive);
        drop(alone);
        assert_eq!((locks(GATE), locks(ROUTES)), (vec![], vec![]));
        drop(barrier.shared(Duration::ZERO).expect("one attempt is made"));
        drop(barrier.exclusive(Duration::MAX).expect("free"));
    });
}

#[test]
fn a_deadline_is_kept_and_changes_nothing() {
    with_barrier("write_barrier::deadline", |barrier| {
        assert_eq!(DEFAULT_PATIENCE, Duration::from_secs(5));
        let shared = barrier.shared(SHORT).expect("free");
        for _ in 0..3 {
            let start = Instant::now();
            times_out(barrier.exclusive(SHORT), ROUTES, Mode::Exclusive);
            assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
            assert!(
                start.elapsed() < Duration::from_secs(4),
                "{:?}",
                start.elapsed()
            );
            assert_eq!(
                locks(GATE),
                NONE,
                "who gave up at the routes leaves the gate"
            );
            assert_eq!(locks(ROUTES), ["READ"]);
            // Nobody else is kept out by who gave up.
            drop(barrier.shared(SHORT).expect("beside the other"));
        }
        drop(shared);
        let alone = barrier.exclusive(SHORT).expect("free");
        times_out(barrier.shared(SHORT), GATE, Mode::Shared);
        assert_eq!((locks(GATE).len(), locks(ROUTES).len()), (1, 1));
        drop(alone);
    });
}

/// A lock belongs to an opened directory: were it shared, the second shared guard would be one lock
/// with the first, and an exclusive one would turn it.
#[test]
fn guards_of_one_process_are_independent_by_whatever_path() {
    with_barrier("write_barrier::independent", |barrier| {
        let other = WriteBarrier::new(
            format!("{}/state/./{GATE}", netns::BPFFS),
            format!("{}/state/../state/{ROUTES}", netns::BPFFS),
        );
        let copy = barrier.clone();
        for (first, second) in [(&barrier, &copy), (&barrier, &other), (&other, &other)] {
            let one = first.shared(SHORT).expect("free");
            let two = second.shared(SHORT).expect("beside the other");
            assert_eq!(locks(ROUTES), ["READ", "READ"]);
            drop(one);
            assert_eq!(locks(ROUTES), ["READ"]);
            times_out(barrier.exclusive(SHORT), ROUTES, Mode::Exclusive);
            assert!(first.exclusive(SHORT).is_err() && second.exclusive(SHORT).is_err());
            assert_eq!(locks(ROUTES), ["READ"]);
            drop(two);
            drop(second.exclusive(SHORT).expect("free"));
        }
    });
}

#[test]
fn a_guard_goes_to_another_thread_and_ends_there() {
    with_barrier("write_barrier::threads", |barrier| {
        let guard = barrier.exclusive(SHORT).expect("free");
        let waiting = barrier.clone();
        let waiter = std::thread::spawn(move || waiting.shared(DEFAULT_PATIENCE).map(drop));
        std::thread::spawn(move || drop(guard))
            .join()
            .expect("a thread");
        waiter.join().expect("a thread").expect("free by now");
    });
}

/// While an exclusive taker waits for the last who has it shared, nobody else gets it shared.
#[test]
fn who_waits_for_it_alone_lets_nobody_else_begin() {
    with_barrier("write_barrier::gate", |barrier| {
        let last = barrier.shared(SHORT).expect("free");
        let alone: ExclusiveGuard = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| barrier.exclusive(DEFAULT_PATIENCE).expect("in time"));
            assert!(within(DEFAULT_PATIENCE, || locks(GATE) == ["WRITE"]));
            assert_eq!(locks(ROUTES), ["READ"]);
            times_out(barrier.shared(SHORT), GATE, Mode::Shared);
            drop(last);
            waiter.join().expect("a thread")
        });
        times_out(barrier.shared(SHORT), GATE, Mode::Shared);
        drop(alone);
        drop(barrier.shared(SHORT).expect("free"));
    });
}

#[test]
fn exclusive_not_starved() {
    with_barrier("write_barrier::starved", |barrier| {
        const WRITERS: usize = 4;
        const TURNS: u32 = 25;
        let (stop, inside) = (AtomicBool::new(false), AtomicU32::new(0));
        let mut taken = [0_u32; WRITERS];
        let mut longest = Duration::ZERO;
        std::thread::scope(|scope| {
            for taken in &mut taken {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let guard = barrier.shared(DEFAULT_PATIENCE).expect("in time");
                        inside.fetch_add(1, Ordering::SeqCst);
                        // A few routes; the writers overlap, so that somebody always holds it.
                        std::thread::sleep(Duration::from_micros(300));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(guard);
                        *taken += 1;
                    }
                });
            }
            for _ in 0..TURNS {
                let start = Instant::now();
                let guard = barrier.exclusive(DEFAULT_PATIENCE).expect("not starved");
                longest = longest.max(start.elapsed());
                assert_eq!(inside.load(Ordering::SeqCst), 0, "alone");
                drop(guard);
                // The writers have their turn.
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(taken.iter().all(|&taken| taken > TURNS / 5), "{taken:?}");
        assert!(longest < DEFAULT_PATIENCE, "{longest:?}");
    });
}

const HOLD: &str = "GW_TEST_BARRIER_HOLD";

/// Not a test: what the processes of other tests run.
#[test]
#[ignore = "the process that other tests start"]
fn holder() {
    let Ok(how) = std::env::var(HOLD) else { return };
    println!("\nready");
    let _guard: Box<dyn std::any::Any> = match how.as_str() {
        "shared" => Box::new(barrier().shared(DEFAULT_PATIENCE).expect("free")),
        _ => Box::new(barrier().exclusive(Duration::MAX).expect("free")),
    };
    println!("held");
    std::thread::sleep(Duration::from_secs(600));
}

/// A process that takes the barrier.
struct Holder {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Holder {
    fn start(how: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "holder", "--ignored", "--nocapture"])
            .env(HOLD, how)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut holder = Self { child, lines };
        holder.says("ready");
        holder
    }

    fn says(&mut self, word: &str) {
        let said = self.lines.any(|line| line.expect("text") == word);
        assert!(said, "the process ended before it said {word}");
    }

    /// As with `kill -9`, by its id.
    fn kill(mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, Signal::SIGKILL).expect("a process");
        let status = self.child.wait().expect("ended");
        assert!(!status.success());
    }
}

#[test]
fn a_killed_holder_releases_it() {
    with_barrier("write_barrier::killed", |barrier| {
        let mut holder = Holder::start("shared");
        holder.says("held");
        times_out(barrier.exclusive(SHORT), ROUTES, Mode::Exclusive);
        drop(barrier.shared(SHORT).expect("beside the other process"));
        holder.kill();
        assert_eq!((locks(GATE).len(), locks(ROUTES).len()), (0, 0));
        drop(barrier.exclusive(SHORT).expect("free"));

        let mut holder = Holder::start("exclusive");
        holder.says("held");
        times_out(barrier.shared(SHORT), GATE, Mode::Shared);
        holder.kill();
        drop(barrier.shared(SHORT).expect("free"));
    });
}

#[test]
fn who_is_killed_while_it_waits_leaves_the_gate_open() {
    with_barrier("write_barrier::killed_at_gate", |barrier| {
        let last = barrier.shared(SHORT).expect("free");
        let holder = Holder::start("exclusive");
        assert!(within(DEFAULT_PATIENCE, || locks(GATE) == ["WRITE"]));
        times_out(barrier.shared(SHORT), GATE, Mode::Shared);
        holder.kill();
        drop(barrier.shared(SHORT).expect("free again"));
        assert_eq!((locks(GATE).len(), locks(ROUTES).len()), (0, 1));
        drop(last);
    });
}

/// A stopped process keeps what it has, as a writer that is paused at any instruction must.
#[test]
fn a_stopped_holder_keeps_it() {
    with_barrier("write_barrier::stopped", |barrier| {
        let mut holder = Holder::start("shared");
        holder.says("held");
        let pid = Pid::from_raw(holder.child.id() as i32);
        kill(pid, Signal::SIGSTOP).expect("a process");
        times_out(barrier.exclusive(SHORT), ROUTES, Mode::Exclusive);
        holder.kill();
        drop(barrier.exclusive(SHORT).expect("free"));
    });
}

#[test]
fn a_program_that_is_started_inherits_nothing() {
    with_barrier("write_barrier::inherited", |barrier| {
        let guard = barrier.exclusive(SHORT).expect("free");
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let listed = fs::read_dir(format!("/proc/{}/fd", child.id())).expect("descriptors");
        let targets = listed.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let inherited: Vec<_> = targets.filter(|path| path.starts_with(state())).collect();
        drop(guard);
        let free = barrier.exclusive(SHORT).map(drop);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("a process");
        child.wait().expect("ended");
        assert_eq!(inherited, [] as [PathBuf; 0]);
        free.expect("nobody has it");
    });
}

#[test]
fn a_directory_that_is_missing_or_none_is_an_error_at_once() {
    with_barrier("write_barrier::missing", |barrier| {
        for name in [GATE, ROUTES] {
            let path = state().join(name);
            fs::remove_dir(&path).expect("empty");
            let start = Instant::now();
            for error in [
                barrier.shared(DEFAULT_PATIENCE).err(),
                barrier.exclusive(DEFAULT_PATIENCE).err(),
            ] {
                let error = error.expect("missing");
                assert_eq!(error.kind(), ErrorKind::NotFound);
                let text = format!(
                    "cannot open {}: No such file or directory (os error 2)",
                    path.display()
                );
                assert_eq!(error.to_string(), text);
            }
            assert!(start.elapsed() < DEFAULT_PATIENCE);
            barrier.create().expect("again");
            barrier.create().expect("what is there is left");
        }
        // Whoever may write there could otherwise have somebody else's directory locked.
        let outside = std::env::temp_dir();
        let link = state().join("link");
        std::os::unix::fs::symlink(&outside, &link).expect("a link");
        let linked = WriteBarrier::new(state().join(GATE), &link);
        assert!(matches!(linked.shared(SHORT), Err(BarrierError::Sys(_))));
    });
}

/// The lock of a directory that has been removed keeps nobody away from its successor, nor does it
/// let anybody in.
#[test]
fn directories_made_anew_are_those_that_count() {
    with_barrier("write_barrier::anew", |barrier| {
        let former = barrier.exclusive(SHORT).expect("free");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| barrier.shared(DEFAULT_PATIENCE));
            std::thread::sleep(SHORT);
            for name in [ROUTES, GATE] {
                fs::remove_dir(state().join(name)).expect("empty");
            }
            // A waiter that looks at this moment is told that there is nothing to wait for.
            barrier.create().expect("anew");
            match waiter.join().expect("a thread") {
                Ok(guard) => {
                    assert_eq!(locks(ROUTES), ["READ"], "of the new directory");
                    drop(guard);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
            }
        });
        let alone = barrier.exclusive(SHORT).expect("the new ones are free");
        drop(former);
        assert_eq!((locks(GATE).len(), locks(ROUTES).len()), (1, 1));
        drop(alone);
    });
}
