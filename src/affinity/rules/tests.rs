// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The rules as a table, one line per case, written from their specification.

use super::*;
use crate::affinity::Origin;

/// The backends by row: the owner is ready, the others are what their names say. One row is empty,
/// and the entry of `other` names another incarnation than the ready row has.
const OWNER: u16 = 0;
const ROWS: [(&str, Option<BackendState>); 5] = [
    ("owner", Some(BackendState::Ready)),
    ("ready", Some(BackendState::Ready)),
    ("draining", Some(BackendState::Draining)),
    ("unhealthy", Some(BackendState::Unhealthy)),
    ("missing", None),
];

fn backends(row: u16) -> Option<Standing> {
    let (_, state) = ROWS.get(usize::from(row))?;
    state.map(|state| Standing {
        state,
        incarnation: 100 + u32::from(row),
    })
}

fn row(name: &str) -> u16 {
    let row = ROWS.iter().position(|(other, _)| *other == name);
    row.unwrap_or_else(|| panic!("no backend {name}")) as u16
}

/// `-`, or a backend and perhaps the phase of its entry.
fn entry(text: &str) -> Option<Binding> {
    let (name, phase) = text.split_once(':').unwrap_or((text, "live"));
    let (row, incarnation) = match name {
        "-" => return None,
        "other" => (row("ready"), 7),
        name => (row(name), 100 + u32::from(row(name))),
    };
    Some(Binding {
        tag: 1,
        row,
        incarnation,
        seen_ns: 0,
        phase: match phase {
            "live" => Phase::Live,
            "expiring" => Phase::Expiring,
            "dead" => Phase::Dead,
            "touched" => Phase::Touched,
            other => panic!("no phase {other}"),
        },
        fin: false,
        rst: false,
        origin: Origin::Traffic,
        learned: 0,
        hash: 2,
    })
}

/// `plain`, `held`, `open:base`; with `~` before it nobody owns the slot.
fn slot(text: &str) -> Slot {
    let (owner, text) = match text.strip_prefix('~') {
        Some(text) => (None, text),
        None => (Some(OWNER), text),
    };
    let kind = match text.split_once(':') {
        Some(("open", base)) => SlotKind::Open { base: row(base) },
        None if text == "plain" => SlotKind::Plain,
        None if text == "held" => SlotKind::Held,
        _ => panic!("no slot {text}"),
    };
    Slot { owner, kind }
}

fn class(text: &str) -> Class {
    match text {
        "syn" => Class::TcpStart,
        "initial" => Class::QuicStart,
        "mid" => Class::MidFlow,
        "icmp" => Class::Observer,
        "fragment" => Class::Fragment,
        other => panic!("no packet {other}"),
    }
}

fn outcome(decision: &Decision) -> String {
    let answer = match decision.answer {
        Some((row, rule)) => format!("{} {rule}", ROWS[usize::from(row)].0),
        None => "- -".to_owned(),
    };
    let change = match decision.change {
        Change::None => "-",
        Change::Refresh => "refresh",
        Change::Revive => "revive",
        Change::Rebind => "rebind",
        Change::Insert { .. } => "insert",
    };
    let outcome = format!("{:?}", decision.outcome);
    let mut text = format!("{answer} {outcome} {change}");
    for (set, mark) in [
        (decision.at_risk, " at-risk"),
        (decision.keeps_open, " keeps-open"),
    ] {
        if set {
            text.push_str(mark);
        }
    }
    text
}

/// Runs a table: everything before `|` is the question, what is behind it the decision.
fn check(table: &str, after: impl Fn(Decision) -> Decision) {
    let mut lines = 0;
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (question, expected) = line.split_once('|').unwrap();
        let words: Vec<_> = question.split_whitespace().collect();
        let [tracking, slot_text, entry_text, class_text, level, grace] = words[..] else {
            panic!("{line}");
        };
        let entry = entry(entry_text);
        let question = Question {
            slot: slot(slot_text),
            tracking: match tracking {
                "all" => Tracking::All,
                "exceptions" => Tracking::Exceptions,
                other => panic!("no tracking {other}"),
            },
            class: class(class_text),
            entry: entry.as_ref(),
            grace: grace == "grace",
            level: match level {
                "all" => Level::All,
                "reserve" => Level::Reserve,
                "none" => Level::None,
                other => panic!("no level {other}"),
            },
        };
        let decision = after(question.place(backends));
        let expected: Vec<_> = expected.split_whitespace().collect();
        assert_eq!(outcome(&decision), expected.join(" "), "{line}");
        lines += 1;
    }
    assert!(lines > 3);
}

#[test]
fn plain_slots_are_their_owners() {
    check(
        "exceptions  plain -        mid      all  - | owner table Plain -
         exceptions  plain -        syn      none - | owner table Plain -
         exceptions  plain -        initial  none - | owner table Plain -
         exceptions  plain -        icmp     all  - | owner table Plain -
         exceptions  plain -        fragment all  - | owner table Plain -
         exceptions  plain draining mid      all  - | owner table Plain -
         exceptions ~plain -        mid      all  - | - - NoBackend -
         exceptions ~plain -        syn      all  - | - - NoBackend -",
        |decision| decision,
    );
}

#[test]
fn an_entry_wins_while_its_backend_takes_the_packet() {
    check(
        "exceptions  held        ready              mid     all  - | ready flow Hit refresh
         exceptions  held        ready:expiring     mid     none - | ready flow Hit refresh
         exceptions  open:ready  owner              mid     all  - | owner flow Hit refresh
         exceptions  open:ready  draining           mid     all  - | draining flow Hit refresh
         exceptions  open:ready  draining           initial all  - | draining flow Hit refresh
         exceptions  open:ready  ready              syn     all  - | ready flow Hit refresh
         exceptions ~open:ready  ready              syn     all  - | ready flow Hit refresh
         exceptions  open:ready  draining           syn     all  - | owner reselect Reselected rebind
         exceptions  held        draining           syn     none - | owner reselect Reselected rebind
         exceptions  held        unhealthy          mid     all  - | owner reselect Reselected rebind
         exceptions  open:ready  unhealthy          mid     all  - | owner reselect Reselected rebind
         exceptions  open:ready  missing            initial all  - | owner reselect Reselected rebind
         exceptions  open:ready  other              mid     all  - | owner reselect Reselected rebind
         exceptions ~open:ready  other              mid     all  - | - - NoBackend -
         exceptions ~held        draining           syn     all  - | - - NoBackend -
         exceptions  held        ready:dead         mid     all  - | ready flow DeadUsed revive
         exceptions  held        ready:touched      mid     all  - | ready flow DeadUsed revive
         exceptions  held        ready              icmp    all  - | ready flow Hit -
         exceptions  held        ready:dead         icmp    all  - | ready flow DeadUsed -
         exceptions  held        unhealthy          icmp    all  - | owner reselect Reselected -
         all         plain       ready              mid     none - | ready flow Hit refresh
         all         plain       draining           syn     all  - | owner reselect Reselected rebind
         all         plain       unhealthy:expiring mid     all  - | owner reselect Reselected rebind
         all         plain       ready              icmp    all  - | ready flow Hit -",
        |decision| decision,
    );
}

const MISSES: &str = "
    exceptions  held           - mid      all     -     | owner table HeldDefault -
    exceptions  held           - syn      none    -     | owner table HeldDefault -
    exceptions  held           - icmp     all     -     | owner table HeldDefault -
    exceptions  held           - fragment all     -     | owner table HeldDefault -
    exceptions ~held           - mid      all     -     | - - NoBackend -

    exceptions  open:ready     - syn      all     -     | owner table StartInserted insert
    exceptions  open:ready     - syn      all     grace | owner table StartInserted insert
    exceptions  open:draining  - syn      all     -     | owner table StartInserted insert
    exceptions  open:missing   - syn      all     -     | owner table StartInserted insert
    exceptions ~open:ready     - syn      all     -     | - - NoBackend -
    exceptions ~open:ready     - syn      none    -     | - - NoBackend -
    exceptions  open:ready     - initial  all     -     | owner table StartInserted insert
    exceptions  open:ready     - initial  all     grace | ready previous BaseInserted insert
    exceptions ~open:ready     - initial  all     grace | ready previous BaseInserted insert
    exceptions ~open:ready     - initial  all     -     | - - NoBackend -
    exceptions  open:draining  - initial  all     grace | owner table StartInserted insert
    exceptions  open:unhealthy - initial  all     grace | owner table StartInserted insert

    exceptions  open:ready     - mid      all     -     | ready previous BaseInserted insert
    exceptions  open:draining  - mid      reserve -     | draining previous BaseInserted insert
    exceptions  open:unhealthy - mid      all     -     | owner table BaseInserted insert
    exceptions  open:missing   - mid      all     -     | owner table BaseInserted insert
    exceptions ~open:draining  - mid      all     -     | draining previous BaseInserted insert
    exceptions ~open:missing   - mid      all     -     | - - NoBackend -

    exceptions  open:ready     - icmp     all     -     | ready previous NoEntry -
    exceptions  open:unhealthy - icmp     none    -     | owner table NoEntry -
    exceptions  open:draining  - fragment all     -     | draining previous NoEntry -
    exceptions  open:draining  ready fragment all -     | draining previous NoEntry -
    exceptions ~open:missing   - fragment all     -     | - - NoBackend -

    all         plain          - mid      all     -     | owner table AllInserted insert
    all         plain          - syn      all     -     | owner table AllInserted insert
    all         plain          - initial  all     grace | owner table AllInserted insert
    all         plain          - icmp     all     -     | owner table NoEntry -
    all         plain          - fragment all     -     | owner table NoEntry -
    all         plain          ready fragment all -     | owner table NoEntry -
    all        ~plain          - mid      all     -     | - - NoBackend -
    all        ~plain          - mid      none    -     | - - NoBackend -";

#[test]
fn without_an_entry_the_slot_decides() {
    check(MISSES, |decision| decision);
}

/// A start goes where its later packets will go, but never to a draining backend.
const REFUSED: &str = "
    exceptions  open:ready     - syn     LEVEL - | ready previous OUTCOME - keeps-open
    exceptions  open:draining  - syn     LEVEL - | owner table OUTCOME - at-risk keeps-open
    exceptions  open:unhealthy - syn     LEVEL - | owner table OUTCOME - at-risk keeps-open
    exceptions  open:missing   - syn     LEVEL - | owner table OUTCOME - at-risk keeps-open
    exceptions  open:ready     - initial LEVEL - | ready previous OUTCOME - keeps-open
    exceptions  open:draining  - initial LEVEL - | owner table OUTCOME - at-risk keeps-open
    all         plain          - mid     LEVEL - | owner table OUTCOME - at-risk
    all         plain          - syn     LEVEL - | owner table OUTCOME - at-risk";

const REFUSED_MID_FLOW: &str = "
    exceptions  open:ready     - mid     LEVEL - | ready previous OUTCOME - keeps-open
    exceptions  open:draining  - mid     LEVEL - | draining previous OUTCOME - keeps-open
    exceptions  open:unhealthy - mid     LEVEL - | owner table OUTCOME - at-risk keeps-open
    exceptions  open:missing   - mid     LEVEL - | owner table OUTCOME - at-risk keeps-open";

fn refused(table: &str, level: &str, outcome: &str) -> String {
    let table = table.replace("LEVEL", level);
    table.replace("OUTCOME", outcome)
}

#[test]
fn levels_refuse_what_they_say() {
    check(&refused(REFUSED, "reserve", "RefusedHigh"), |d| d);
    check(&refused(REFUSED, "none", "RefusedFull"), |d| d);
    check(&refused(REFUSED_MID_FLOW, "none", "RefusedFull"), |d| d);
    // The nobody of a start is nobody, although the base would take it.
    check(
        "exceptions ~open:ready - syn     reserve - | - - NoBackend -
         exceptions ~open:ready - initial reserve - | ready previous RefusedHigh - keeps-open
         exceptions ~open:ready - initial none    - | ready previous RefusedFull - keeps-open
         exceptions  open:ready - mid     reserve - | ready previous BaseInserted insert",
        |decision| decision,
    );
}

#[test]
fn a_table_that_takes_nothing_refuses_alike() {
    for (refusal, outcome) in [
        (Refusal::Full, "RefusedFull"),
        (Refusal::Busy, "RefusedBusy"),
    ] {
        for table in [REFUSED, REFUSED_MID_FLOW] {
            check(&refused(table, "all", outcome), |decision| {
                assert!(matches!(decision.change, Change::Insert { .. }));
                decision.refused(refusal)
            });
        }
    }
    // Nothing that is not asked for is refused.
    let asks = |line: &&str| !line.ends_with("insert");
    let others: Vec<_> = MISSES.lines().filter(asks).collect();
    check(&others.join("\n"), |decision| {
        decision.refused(Refusal::Full)
    });
}

#[test]
fn two_cpus_agree_on_the_entry_of_the_first() {
    let table = "
        exceptions open:ready    - syn LEVEL - | draining flow Raced -
        exceptions open:ready    - mid LEVEL - | draining flow Raced -
        exceptions open:draining - mid LEVEL - | draining flow Raced -
        all        plain         - mid LEVEL - | draining flow Raced -";
    let first = entry("draining");
    check(&table.replace("LEVEL", "all"), |decision| {
        decision.raced(first.as_ref(), backends)
    });
    // Gone again, or useless.
    for second in ["-", "unhealthy", "missing", "other"] {
        let second = entry(second);
        check(&refused(REFUSED, "all", "RefusedBusy"), |decision| {
            decision.raced(second.as_ref(), backends)
        });
    }
}

#[test]
fn slots_and_levels_keep_their_numbers() {
    for (text, owner, base) in [
        ("plain", 0, 0xffff),
        ("held", 0, 0xfffe),
        ("open:draining", 0, 2),
        ("~open:draining", 0xffff, 2),
        ("~plain", 0xffff, 0xffff),
    ] {
        let word = abi::Slot { owner, base };
        assert_eq!(Slot::from_abi(word), slot(text));
        let back = slot(text).to_abi();
        assert_eq!((back.owner, back.base), (owner, base));
    }
    for (number, level) in [(0, Level::All), (1, Level::Reserve), (2, Level::None)] {
        assert_eq!((Level::from_abi(number), level.to_abi()), (level, number));
    }
    assert_eq!(Level::from_abi(3), Level::None);
}
