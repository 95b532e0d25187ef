// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! When to look again: the control loop without its clock and its descriptors.
//!
//! The caller tells what happened and when; [`Machine::poll`] says what to do now, or how long
//! there is nothing to do. Times are those of any monotonic clock, as long as it is always the same
//! one.
//!
//! - The first event opens a window, at whose end one sweep runs. Events within the window belong
//!   to that sweep and do not extend it, so that no stream of them can put a sweep off.
//! - An event during a sweep opens a window likewise: there is exactly one more sweep, however many
//!   events there were.
//! - A sweep runs when the last one began an interval ago, whatever happens.
//! - Once in a while, and only after a sweep, the rest is tidied up (idle pins go), step by step. A
//!   sweep that is due comes before the next step, so that it waits for one at most.
//! - A neighbour that was lost is looked at again when its time is up, without a window.
//! - Where events were lost, the view is made anew at once, but only so often. A sweep follows the
//!   loss and another one the new view; a sweep itself asks the kernel and needs no view.
//!
//! ```
//! use std::time::Duration;
//! use guideway::control::machine::{Action, Machine, Timing, Trigger};
//!
//! let ms = Duration::from_millis;
//! let mut machine = Machine::new(Timing::default(), ms(0));
//! assert_eq!(machine.poll(ms(0)), Action::Sweep(Trigger::Timer), "the first one");
//! machine.swept(None);
//! assert_eq!(machine.poll(ms(0)), Action::Tidy);
//! machine.tidied(false, ms(0));
//! machine.kick(Trigger::Route, ms(1_000));
//! machine.kick(Trigger::Neighbour, ms(1_200));
//! assert_eq!(machine.poll(ms(1_200)), Action::Wait(Some(ms(1_250))));
//! assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Route));
//! ```

use std::fmt;
use std::time::Duration;

/// Why a sweep runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// The list of shards may have changed.
    Source,
    /// A route changed that leads to a shard, or events were lost.
    Route,
    /// A neighbour on an uplink changed, or its time is up.
    Neighbour,
    /// An uplink changed.
    Link,
    /// An interval has passed.
    Timer,
    /// Somebody asked for it.
    Command,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Source,
        Self::Route,
        Self::Neighbour,
        Self::Link,
        Self::Timer,
        Self::Command,
    ];

    /// The name that outputs use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Route => "route",
            Self::Neighbour => "neighbour",
            Self::Link => "link",
            Self::Timer => "timer",
            Self::Command => "command",
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The loop's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the first event to its sweep; 0 for at once.
    pub debounce: Duration,
    /// From the beginning of a sweep to the next one where nothing happens.
    pub interval: Duration,
    /// Least time between two dumps.
    pub dump_gap: Duration,
    /// Least time from the beginning of one tidying to the next.
    pub tidy: Duration,
}

impl Default for Timing {
    /// 250 ms, 30 s, 10 s and 30 s.
    fn default() -> Self {
        Self {
            debounce: Duration::from_millis(250),
            interval: Duration::from_secs(30),
            dump_gap: Duration::from_secs(10),
            tidy: Duration::from_secs(30),
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Run a sweep, and call [`Machine::swept`] when it has ended. Until then there is no other.
    Sweep(Trigger),
    /// Make the view of links and neighbours anew. Where that fails, call [`Machine::overrun`].
    Dump,
    /// Do one more step of tidying up, and call [`Machine::tidied`] when it has ended. Until then
    /// there is no other, but there may be a sweep.
    Tidy,
    /// Nothing before this time if nothing is told before; `None` while only the end of the sweep
    /// that runs is awaited.
    Wait(Option<Duration>),
}

/// How often each trigger was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([u64; Trigger::ALL.len()]);

impl Counts {
    /// Those of one trigger.
    #[must_use]
    pub const fn of(&self, trigger: Trigger) -> u64 {
        self.0[trigger as usize]
    }

    /// Those of all triggers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn count(&mut self, trigger: Trigger) {
        self.0[trigger as usize] += 1;
    }
}

/// The state of the loop.
#[derive(Debug, Clone)]
pub struct Machine {
    timing: Timing,
    /// The end of the window that the first event opened, and that event.
    window: Option<(Duration, Trigger)>,
    /// When the interval since the last sweep has passed.
    backstop: Duration,
    /// When a lost neighbour's time is up.
    hold: Option<Duration>,
    /// When the last sweep began.
    began: Duration,
    sweeping: bool,
    tidying: bool,
    /// When there is something to tidy up; none before the first sweep has ended.
    tidy: Option<Duration>,
    view_lost: bool,
    dump_allowed: Duration,
    kicks: Counts,
    sweeps: Counts,
}

impl Machine {
    /// A loop whose first sweep is due now.
    #[must_use]
    pub fn new(timing: Timing, now: Duration) -> Self {
        Self {
            timing,
            window: None,
            backstop: now,
            hold: None,
            began: now,
            sweeping: false,
            tidying: false,
            tidy: None,
            view_lost: false,
            dump_allowed: now,
            kicks: Counts::default(),
            sweeps: Counts::default(),
        }
    }

    /// Something happened that a sweep should see.
    pub fn kick(&mut self, trigger: Trigger, now: Duration) {
        self.kicks.count(trigger);
        self.open_window(trigger, now);
    }

    /// Events were lost, or what arrived could not be understood, or a dump failed.
    pub fn overrun(&mut self, now: Duration) {
        self.view_lost = true;
        self.kick(Trigger::Route, now);
    }

    /// The sweep that [`poll`](Self::poll) asked for has ended, well or not. `hold` is when a
    /// neighbour that it found lost must be looked at again. A time that was up when the sweep began
    /// is one that it failed to look at: the next sweep does.
    pub fn swept(&mut self, hold: Option<Duration>) {
        self.sweeping = false;
        self.tidy.get_or_insert(self.began);
        self.hold = hold.filter(|hold| *hold > self.began);
    }

    /// The step that [`poll`](Self::poll) asked for has ended, well or not. `more`: it was not the
    /// last of this tidying.
    pub fn tidied(&mut self, more: bool, now: Duration) {
        self.tidying = false;
        self.tidy = Some(match more {
            true => now,
            false => now.saturating_add(self.timing.tidy),
        });
    }

    /// Other times from now on; a window that is open keeps its end.
    pub fn retime(&mut self, timing: Timing) {
        self.backstop =
            (self.backstop.saturating_sub(self.timing.interval)).saturating_add(timing.interval);
        self.timing = timing;
    }

    /// What to do now. To be asked again until it says to wait.
    pub fn poll(&mut self, now: Duration) -> Action {
        if self.view_lost && now >= self.dump_allowed {
            self.view_lost = false;
            self.dump_allowed = now.saturating_add(self.timing.dump_gap);
            // What changed between the loss and the dump is in no event.
            self.open_window(Trigger::Route, now);
            return Action::Dump;
        }
        match self.due(now) {
            Some(trigger) if !self.sweeping => {
                self.sweeping = true;
                self.began = now;
                self.window = None;
                self.hold = None;
                self.backstop = now.saturating_add(self.timing.interval);
                self.sweeps.count(trigger);
                Action::Sweep(trigger)
            }
            _ if self.is_untidy(now) => {
                self.tidying = true;
                Action::Tidy
            }
            _ => Action::Wait(self.deadline()),
        }
    }

    /// When [`poll`](Self::poll) has something to do, if nothing is told before. Tidying up waits for
    /// the next sweep.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let dump = self.view_lost.then_some(self.dump_allowed);
        let sweep = (!self.sweeping).then(|| {
            let window = self.window.map(|(end, _)| end);
            let early = window.into_iter().chain(self.hold).min();
            early.map_or(self.backstop, |early| early.min(self.backstop))
        });
        dump.into_iter().chain(sweep).min()
    }

    /// Whether a sweep runs.
    #[must_use]
    pub const fn is_sweeping(&self) -> bool {
        self.sweeping
    }

    /// Events that asked for a sweep, those included that joined an open window.
    #[must_use]
    pub const fn kicks(&self) -> Counts {
        self.kicks
    }

    /// Sweeps that were begun.
    #[must_use]
    pub const fn sweeps(&self) -> Counts {
        self.sweeps
    }

    fn open_window(&mut self, trigger: Trigger, now: Duration) {
        let end = now.saturating_add(self.timing.debounce);
        self.window.get_or_insert((end, trigger));
    }

    fn is_untidy(&self, now: Duration) -> bool {
        let due = self.tidy.is_some_and(|due| now >= due);
        due && !self.sweeping && !self.tidying
    }

    fn due(&self, now: Duration) -> Option<Trigger> {
        match self.window {
            Some((end, trigger)) if now >= end => Some(trigger),
            _ if self.hold.is_some_and(|end| now >= end) => Some(Trigger::Neighbour),
            _ => (now >= self.backstop).then_some(Trigger::Timer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn wait(until: u64) -> Action {
        Action::Wait(Some(ms(until)))
    }

    /// A loop whose first sweep ran at 0, and that was tidied up once and for all.
    fn idle() -> Machine {
        let timing = Timing {
            tidy: Duration::MAX,
            ..Timing::default()
        };
        let mut machine = Machine::new(timing, ms(0));
        assert_eq!(machine.poll(ms(0)), Action::Sweep(Trigger::Timer));
        machine.swept(None);
        assert_eq!(machine.poll(ms(0)), Action::Tidy);
        machine.tidied(false, ms(0));
        assert_eq!(machine.poll(ms(0)), wait(30_000));
        machine
    }

    #[test]
    fn a_sweep_that_fails_is_not_repeated_for_a_hold_that_is_over() {
        let mut machine = idle();
        machine.kick(Trigger::Neighbour, ms(1_000));
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Neighbour));
        machine.swept(Some(ms(2_250)));
        assert_eq!(machine.poll(ms(2_250)), Action::Sweep(Trigger::Neighbour));
        // It looked at nothing, so the neighbour's time is what it was.
        machine.swept(Some(ms(2_250)));
        assert_eq!(machine.poll(ms(2_300)), wait(32_250));
    }

    #[test]
    fn events_join_a_window_and_do_not_extend_it() {
        let mut machine = idle();
        machine.kick(Trigger::Neighbour, ms(1_000));
        for at in 1_001..1_250 {
            machine.kick(Trigger::Route, ms(at));
            assert_eq!(machine.poll(ms(at)), wait(1_250), "{at}");
        }
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Neighbour));
        machine.swept(None);
        assert_eq!(machine.poll(ms(1_260)), wait(31_250), "they were one sweep");
        assert_eq!(machine.sweeps().of(Trigger::Neighbour), 1);
        assert_eq!(machine.kicks().of(Trigger::Route), 249);
        assert_eq!(machine.kicks().total(), 250);
    }

    #[test]
    fn a_stream_of_events_gets_a_sweep_in_each_window() {
        let mut machine = idle();
        let mut sweeps = Vec::new();
        for at in 1..=10_000 {
            machine.kick(Trigger::Route, ms(at));
            if let Action::Sweep(_) = machine.poll(ms(at)) {
                sweeps.push(at);
                machine.swept(None);
            }
        }
        // The event behind a sweep is 1 ms later, and opens the next window.
        assert_eq!(sweeps[..3], [251, 502, 753]);
        assert_eq!(sweeps.len(), 10_000 / 251);
    }

    #[test]
    fn events_during_a_sweep_are_one_more() {
        let mut machine = idle();
        machine.kick(Trigger::Source, ms(1_000));
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Source));
        for at in [1_260, 1_300, 1_700] {
            machine.kick(Trigger::Link, ms(at));
            assert_eq!(machine.poll(ms(at)), Action::Wait(None), "one at a time");
        }
        assert_eq!(machine.poll(ms(9_000)), Action::Wait(None));
        machine.swept(None);
        assert_eq!(machine.poll(ms(9_000)), Action::Sweep(Trigger::Link));
        machine.swept(None);
        assert_eq!(machine.poll(ms(9_100)), wait(39_000));

        // Behind a short sweep the window still has its length.
        machine.kick(Trigger::Route, ms(10_000));
        assert_eq!(machine.poll(ms(10_250)), Action::Sweep(Trigger::Route));
        machine.kick(Trigger::Route, ms(10_251));
        machine.swept(None);
        assert_eq!(machine.poll(ms(10_260)), wait(10_501));
        assert_eq!(machine.poll(ms(10_501)), Action::Sweep(Trigger::Route));
    }

    #[test]
    fn the_backstop_comes_whatever_happens() {
        let mut machine = idle();
        assert_eq!(machine.poll(ms(29_999)), wait(30_000));
        assert_eq!(machine.poll(ms(30_000)), Action::Sweep(Trigger::Timer));
        // A sweep that takes longer than the interval is followed by the next.
        machine.swept(None);
        assert_eq!(machine.poll(ms(65_000)), Action::Sweep(Trigger::Timer));
        assert_eq!(machine.poll(ms(130_000)), Action::Wait(None));
        machine.swept(None);
        assert_eq!(machine.poll(ms(130_000)), Action::Sweep(Trigger::Timer));
        machine.swept(None);
        // It is counted from the last sweep, whoever asked for that.
        machine.kick(Trigger::Command, ms(131_000));
        assert_eq!(machine.poll(ms(131_250)), Action::Sweep(Trigger::Command));
        machine.swept(None);
        assert_eq!(machine.poll(ms(160_000)), wait(161_250));
        assert_eq!(machine.sweeps().of(Trigger::Timer), 4);
    }

    #[test]
    fn a_sweep_sees_the_events_of_a_window_that_is_still_open() {
        let mut machine = idle();
        machine.kick(Trigger::Link, ms(29_900));
        assert_eq!(machine.poll(ms(30_000)), Action::Sweep(Trigger::Timer));
        machine.swept(None);
        assert_eq!(machine.poll(ms(30_200)), wait(60_000));
    }

    #[test]
    fn a_lost_neighbour_is_looked_at_when_its_time_is_up() {
        let mut machine = idle();
        machine.kick(Trigger::Neighbour, ms(1_000));
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Neighbour));
        machine.swept(Some(ms(2_250)));
        assert_eq!(machine.poll(ms(1_300)), wait(2_250));
        // Without another window: 1.25 s after the event it is out of the table.
        assert_eq!(machine.poll(ms(2_250)), Action::Sweep(Trigger::Neighbour));
        machine.swept(None);
        assert_eq!(machine.poll(ms(2_260)), wait(32_250));

        // A sweep in between says anew how long.
        machine.kick(Trigger::Neighbour, ms(3_000));
        assert_eq!(machine.poll(ms(3_250)), Action::Sweep(Trigger::Neighbour));
        machine.swept(Some(ms(4_250)));
        machine.kick(Trigger::Neighbour, ms(3_500));
        assert_eq!(machine.poll(ms(3_750)), Action::Sweep(Trigger::Neighbour));
        machine.swept(None);
        assert_eq!(machine.poll(ms(4_250)), wait(33_750), "it came back");
    }

    #[test]
    fn the_first_dump_is_at_once_and_others_wait() {
        let mut machine = idle();
        machine.overrun(ms(1_000));
        assert_eq!(machine.poll(ms(1_000)), Action::Dump);
        assert_eq!(machine.poll(ms(1_000)), wait(1_250));
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Route));
        // Sweeps go on meanwhile, and so do losses.
        let mut dumps = Vec::new();
        machine.swept(None);
        for at in 1_300..=31_300 {
            machine.overrun(ms(at));
            loop {
                match machine.poll(ms(at)) {
                    Action::Dump => dumps.push(at),
                    Action::Sweep(_) => machine.swept(None),
                    Action::Tidy | Action::Wait(_) => break,
                }
            }
        }
        assert_eq!(dumps, [11_000, 21_000, 31_000]);
        assert!(machine.sweeps().of(Trigger::Route) > 100);
    }

    #[test]
    fn a_dump_is_followed_by_a_sweep_and_may_run_beside_one() {
        let mut machine = idle();
        machine.overrun(ms(1_000));
        assert_eq!(machine.poll(ms(1_000)), Action::Dump);
        machine.overrun(ms(1_100));
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Route));
        machine.swept(None);
        assert_eq!(machine.poll(ms(1_260)), wait(11_000), "until it is allowed");
        machine.kick(Trigger::Source, ms(10_700));
        assert_eq!(machine.poll(ms(10_950)), Action::Sweep(Trigger::Source));
        assert_eq!(machine.poll(ms(10_960)), wait(11_000));
        assert_eq!(machine.poll(ms(11_000)), Action::Dump);
        assert_eq!(machine.poll(ms(11_000)), Action::Wait(None));
        machine.swept(None);
        assert_eq!(machine.poll(ms(11_010)), wait(11_250));
        assert_eq!(machine.poll(ms(11_250)), Action::Sweep(Trigger::Route));
    }

    #[test]
    fn an_event_is_swept_within_its_window_and_no_later() {
        // Whatever the state, an event with no sweep running is swept 250 ms later at most.
        for other in 0..600 {
            let mut machine = idle();
            machine.kick(Trigger::Source, ms(1_000));
            let mut swept = Vec::new();
            for at in 1_000..2_000 {
                if at == 1_000 + other {
                    machine.kick(Trigger::Route, ms(at));
                }
                if let Action::Sweep(_) = machine.poll(ms(at)) {
                    swept.push(at);
                    machine.swept(None);
                }
            }
            let first = swept.iter().find(|&&at| at >= 1_000 + other);
            assert!(
                first.is_some_and(|at| at - (1_000 + other) <= 250),
                "{other}: {swept:?}"
            );
            assert_eq!(swept.len(), if other <= 250 { 1 } else { 2 }, "{other}");
        }
    }

    #[test]
    fn other_times_hold_from_now_on() {
        let mut machine = idle();
        machine.kick(Trigger::Source, ms(1_000));
        machine.retime(Timing {
            debounce: ms(0),
            interval: ms(5_000),
            dump_gap: ms(1),
            tidy: Duration::MAX,
        });
        assert_eq!(machine.poll(ms(1_000)), wait(1_250));
        assert_eq!(machine.poll(ms(1_250)), Action::Sweep(Trigger::Source));
        machine.swept(None);
        assert_eq!(machine.poll(ms(1_250)), wait(6_250));
        machine.kick(Trigger::Source, ms(1_300));
        assert_eq!(machine.poll(ms(1_300)), Action::Sweep(Trigger::Source));
    }

    #[test]
    fn it_is_tidied_up_after_a_sweep_and_a_sweep_that_is_due_waits_for_one_step_at_most() {
        let mut machine = Machine::new(Timing::default(), ms(0));
        assert_eq!(machine.poll(ms(0)), Action::Sweep(Trigger::Timer));
        assert_eq!(machine.poll(ms(10)), Action::Wait(None), "not beside one");
        machine.swept(None);
        assert_eq!(machine.poll(ms(20)), Action::Tidy);
        assert_eq!(machine.poll(ms(20)), wait(30_000), "one step at a time");
        // What a route's withdrawal asks for comes before the next step.
        machine.kick(Trigger::Route, ms(100));
        assert_eq!(machine.poll(ms(350)), Action::Sweep(Trigger::Route));
        machine.tidied(true, ms(400));
        assert_eq!(machine.poll(ms(400)), Action::Wait(None));
        machine.swept(None);
        assert_eq!(machine.poll(ms(500)), Action::Tidy);
        machine.tidied(false, ms(600));
        assert_eq!(machine.poll(ms(600)), wait(30_350));
        // No sooner than after its interval, and then after the sweep that comes next.
        for at in [10_000, 30_000] {
            machine.kick(Trigger::Source, ms(at));
            assert_eq!(machine.poll(ms(at + 250)), Action::Sweep(Trigger::Source));
            machine.swept(None);
            assert_eq!(machine.poll(ms(at + 300)), wait(at + 30_250));
        }
        assert_eq!(machine.poll(ms(60_250)), Action::Sweep(Trigger::Timer));
        machine.swept(None);
        assert_eq!(machine.poll(ms(60_300)), Action::Tidy);
    }

    #[test]
    fn triggers_are_counted_apart_and_named() {
        let mut machine = idle();
        for (count, trigger) in Trigger::ALL.into_iter().enumerate() {
            for _ in 0..=count {
                machine.kick(trigger, ms(1));
            }
        }
        let counts = Trigger::ALL.map(|trigger| machine.kicks().of(trigger));
        assert_eq!(counts, [1, 2, 3, 4, 5, 6]);
        let names = Trigger::ALL.map(|trigger| trigger.to_string());
        assert_eq!(
            names,
            ["source", "route", "neighbour", "link", "timer", "command"]
        );
    }
}
