// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the random frames came to: agreement on frames that all pass would prove nothing.

use std::collections::BTreeMap;

use guideway::abi::Counter;
use guideway::affinity::rules::SlotKind;
use guideway::oracle::{Action, Verdict};
use guideway::plan::Generation;
use guideway::reason::{Reason, Rule};

/// How often each must have been met.
const LEAST: u64 = 20;

#[derive(Default)]
pub(crate) struct Coverage {
    met: BTreeMap<String, u64>,
}

impl Coverage {
    pub(crate) fn add(&mut self, generation: &Generation, verdict: &Verdict) {
        self.meet(verdict.reason);
        match verdict.action {
            Action::Transmit => self.meet("transmitted"),
            Action::Redirect { .. } => self.meet("redirected"),
            Action::Pass | Action::Drop | Action::Abort => {}
        }
        for counter in &verdict.counters {
            self.meet(format!("counter {}", counter.0));
        }
        for (made, what) in [
            (verdict.created.flow, "made a flow"),
            (verdict.created.cid, "made a binding"),
        ] {
            if made {
                self.meet(what);
            }
        }
        match verdict.slot_kind {
            Some(SlotKind::Plain) => self.meet("a slot that is plain"),
            Some(SlotKind::Held) => self.meet("a slot that is held"),
            Some(SlotKind::Open { .. }) => self.meet("a slot that is open"),
            None => {}
        }
        let Some(rule) = verdict.rule else {
            return;
        };
        self.meet(rule);
        let mut services = generation.services();
        let service = services.find(|(service, _)| Some(service.id) == verdict.service);
        if let Some((service, _)) = service {
            let family = if service.vip.is_ipv4() { 4 } else { 6 };
            self.meet(format!("{rule} {} {family}", service.protocol));
            if verdict.counters.contains(&Counter::GW_COUNTER_ICMP) {
                self.meet(format!("{rule} of an ICMP error, {family}"));
            }
            if verdict.counters.contains(&Counter::GW_COUNTER_FRAGMENTS) {
                self.meet(format!("{rule} of a fragment, {family}"));
            }
        }
    }

    fn meet(&mut self, what: impl ToString) {
        *self.met.entry(what.to_string()).or_default() += 1;
    }

    /// Everything that can be met by one CPU was met often.
    pub(crate) fn assert_complete(&self) {
        let never = [Reason::NoGeneration, Reason::Internal];
        let reasons = Reason::ALL.iter().filter(|reason| !never.contains(reason));
        let mut expected: Vec<_> = reasons.map(ToString::to_string).collect();
        expected.extend(Rule::ALL.iter().map(ToString::to_string));
        let others = ["transmitted", "redirected", "made a flow", "made a binding"];
        expected.extend(others.map(str::to_owned));
        for family in [4, 6] {
            for protocol in ["udp", "tcp"] {
                for rule in ["table", "flow", "previous", "reselect"] {
                    expected.push(format!("{rule} {protocol} {family}"));
                }
            }
            expected.push(format!("server_id udp {family}"));
            for rule in ["table", "flow", "server_id"] {
                expected.push(format!("{rule} of an ICMP error, {family}"));
            }
            expected.push(format!("table of a fragment, {family}"));
        }
        expected.extend(["plain", "held", "open"].map(|kind| format!("a slot that is {kind}")));
        // Two CPUs that insert at once are not to be had here, and a sweep is somebody else's work.
        let elsewhere = [
            Counter::GW_COUNTER_RACED,
            Counter::GW_COUNTER_DELETED_IDLE,
            Counter::GW_COUNTER_DELETED_CLOSED,
            Counter::GW_COUNTER_DELETED_BACKEND_GONE,
            Counter::GW_COUNTER_DELETED_REDUNDANT,
            Counter::GW_COUNTER_RESURRECTED,
            Counter::GW_COUNTER_IMPORTED,
        ];
        let of_packets = Counter::GW_COUNTER_STARTS.0..=Counter::GW_COUNTER_FRAGMENTS.0;
        let of_flows = Counter::GW_COUNTER_PLAIN.0..Counter::GW_COUNTERS.0;
        let counters = of_packets.chain(of_flows);
        let here = counters.filter(|number| elsewhere.iter().all(|other| other.0 != *number));
        expected.extend(here.map(|number| format!("counter {number}")));
        let met = |what: &String| self.met.get(what).copied().unwrap_or(0);
        let rare: Vec<_> = expected.iter().filter(|what| met(what) < LEAST).collect();
        assert!(
            rare.is_empty(),
            "rarely or never met: {rare:?} of {:#?}",
            self.met
        );
    }
}
