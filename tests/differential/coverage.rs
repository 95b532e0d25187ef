// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the random frames came to: agreement on frames that all pass would prove nothing.

use std::collections::BTreeMap;

use guideway::abi::Counter;
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

    /// Everything that can be met without flow state was met often.
    pub(crate) fn assert_complete(&self) {
        let never = [Reason::NoGeneration, Reason::Internal];
        let reasons = Reason::ALL.iter().filter(|reason| !never.contains(reason));
        let mut expected: Vec<_> = reasons.map(ToString::to_string).collect();
        expected.extend([Rule::ServerId, Rule::Table].map(|rule| rule.to_string()));
        expected.extend(["transmitted", "redirected"].map(str::to_owned));
        for family in [4, 6] {
            for way in ["table udp", "table tcp", "server_id udp"] {
                expected.push(format!("{way} {family}"));
            }
            for what in [
                "table of an ICMP error",
                "server_id of an ICMP error",
                "table of a fragment",
            ] {
                expected.push(format!("{what}, {family}"));
            }
        }
        let counters = [
            Counter::GW_COUNTER_STARTS,
            Counter::GW_COUNTER_QUIC_LONG,
            Counter::GW_COUNTER_QUIC_SHORT,
            Counter::GW_COUNTER_FIXED_BIT_CLEAR,
            Counter::GW_COUNTER_VERSION_NEGOTIATION,
            Counter::GW_COUNTER_RETRY,
            Counter::GW_COUNTER_UNKNOWN_VERSION,
            Counter::GW_COUNTER_CID_ZERO,
            Counter::GW_COUNTER_CID_LONG,
            Counter::GW_COUNTER_UNROUTABLE_RESERVED,
            Counter::GW_COUNTER_UNROUTABLE_CONFIG,
            Counter::GW_COUNTER_UNROUTABLE_SHORT,
            Counter::GW_COUNTER_UNROUTABLE_LENGTH,
            Counter::GW_COUNTER_UNKNOWN_SERVER_ID,
            Counter::GW_COUNTER_QUARANTINED_SERVER_ID,
            Counter::GW_COUNTER_ICMP,
            Counter::GW_COUNTER_FRAGMENTS,
            Counter::GW_COUNTER_PLAIN,
            Counter::GW_COUNTER_NO_BACKEND,
        ];
        expected.extend(counters.map(|counter| format!("counter {}", counter.0)));
        let met = |what: &String| self.met.get(what).copied().unwrap_or(0);
        let rare: Vec<_> = expected.iter().filter(|what| met(what) < LEAST).collect();
        assert!(
            rare.is_empty(),
            "rarely or never met: {rare:?} of {:#?}",
            self.met
        );
    }
}
