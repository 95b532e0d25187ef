// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A packet, and what the model says of it.

use super::facts::{
    Explain, ExplainedGroup, ExplainedHop, ExplainedMember, ExplainedPin, ExplainedRoute,
    ExplainedTenant, Verdict,
};
use super::PinSight;
use crate::egress::pins::Tick;
use crate::group::{PinIdle, Snapshot};
use crate::kernel::SysError;
use crate::oracle::egress::{decide, Action, Decision, Packet, Pin, PinFate, Pins, World};
use crate::reason::egress::End;
use crate::route::Target;
use crate::srv6::NextHop;
use crate::tenant::Tenant;

/// A packet, what it finds, and what the model says of it.
#[derive(Debug)]
pub(in crate::egress) struct Case<'a> {
    world: &'a World,
    ifindex: u32,
    now: Tick,
    /// What the packet finds of pins.
    pub(in crate::egress) before: Pins,
    /// What it leaves.
    pub(in crate::egress) after: Pins,
    pub(in crate::egress) decision: Decision,
    /// What it would come to without a pin.
    pinless: Decision,
}

impl<'a> Case<'a> {
    /// Lets the model decide.
    pub(in crate::egress) fn decide(
        world: &'a World,
        packet: &Packet<'_>,
        pins: &PinSight<'_>,
    ) -> Result<Self, SysError> {
        let pinless = decide(world, &mut Pins::with_capacity(0, 0), packet);
        let holder = pinless.choice.and_then(|choice| choice.holder);
        let before = match &pinless.tenant {
            Some(tenant) => pins.around(tenant.table, holder.as_ref())?,
            None => Pins::with_capacity(0, 0),
        };
        Ok(Self::decide_among(world, packet, before, pinless))
    }

    /// The same at another time.
    pub(in crate::egress) fn again(&self, packet: &Packet<'_>) -> Self {
        let (before, pinless) = (self.before.clone(), self.pinless.clone());
        Self::decide_among(self.world, packet, before, pinless)
    }

    /// The same where a table without room was found full a moment ago, so that no pin is tried.
    pub(in crate::egress) fn again_full(&self, packet: &Packet<'_>) -> Self {
        let (mut before, pinless) = (self.before.clone(), self.pinless.clone());
        for room in [&mut before.source, &mut before.flow] {
            room.full_tick = (room.capacity == 0).then_some(packet.now_tick | 1);
        }
        Self::decide_among(self.world, packet, before, pinless)
    }

    /// Lets the model decide, where it is known what the packet finds of pins, and what it would come
    /// to without one.
    pub(in crate::egress) fn decide_among(
        world: &'a World,
        packet: &Packet<'_>,
        before: Pins,
        pinless: Decision,
    ) -> Self {
        let mut after = before.clone();
        let decision = decide(world, &mut after, packet);
        Self {
            world,
            ifindex: packet.ifindex,
            now: Tick::new(packet.now_tick),
            before,
            after,
            decision,
            pinless,
        }
    }

    /// What its group is, if a route names one that is there.
    fn group(&self) -> Option<&'a Snapshot> {
        let (_, route) = self.decision.route.as_ref()?;
        self.world.groups.get(&route.group()?.0)
    }

    pub(in crate::egress) fn explain(&self) -> Explain {
        let Decision {
            end, route, choice, ..
        } = self.decision;
        // A disabled one is looked at no further, and yet it is the reason.
        let tenant = self.world.tenants.get(&self.ifindex);
        let tenant = tenant.filter(|_| !matches!(end, End::Short | End::NotIp));
        let group = self.group();
        let member = choice.and_then(|choice| choice.member);
        let without_pin = self.pinless.choice.and_then(|choice| choice.member);
        let pin = self.pin();
        Explain {
            verdict: Some(match self.decision.action {
                Action::Next => Verdict::Next,
                Action::Drop => Verdict::Drop,
                Action::Redirect { .. } => Verdict::Redirect,
                Action::Answer => Verdict::Answer,
            }),
            end: Some(end),
            why: self.why(pin.as_ref()),
            tenant: tenant.map(|tenant| self.tenant(tenant)),
            route: route.map(|(key, route)| ExplainedRoute::of(&key, &route, tenant, group)),
            group: group.map(ExplainedGroup::of),
            hash: choice.map(|choice| format!("{:08x}", choice.hash)),
            word: choice.map(|choice| choice.word),
            member: member.map(|chosen| ExplainedMember::of(&chosen, group)),
            without_pin: without_pin.map(|chosen| ExplainedMember::of(&chosen, group)),
            pin,
            hop: self.hop(),
        }
    }

    fn tenant(&self, tenant: &Tenant) -> ExplainedTenant {
        ExplainedTenant {
            table: tenant.table.get(),
            hash_table: tenant.hash_table.0,
            argument: tenant.argument.get(),
            enabled: tenant.enabled,
            pin_quota: tenant.pin_quota.0,
            pins: self.before.used.get(&tenant.table).map(|used| used.pins),
        }
    }

    fn pin(&self) -> Option<ExplainedPin> {
        let choice = self.decision.choice?;
        let holder = choice.holder?;
        let found = self.before.pins.get(&holder);
        let idle = self.group()?.settings.pin_idle;
        Some(ExplainedPin {
            fate: choice.pin,
            flow: holder.flow.is_some(),
            slot: found.map(|pin| pin.slot),
            generation: found.map(|pin| pin.generation),
            idle_seconds: found.map(|pin| self.idle(pin)),
            left_seconds: found.map(|pin| self.left(pin, idle)),
        })
    }

    fn idle(&self, pin: &Pin) -> u64 {
        let seen = Tick::new(pin.last_seen_tick);
        self.now.elapsed_since(seen).as_secs()
    }

    /// As the program compares: the time in the pin may be an interval of renewal old.
    fn left(&self, pin: &Pin, idle: PinIdle) -> u64 {
        let end = pin
            .last_seen_tick
            .wrapping_add(idle.ticks())
            .wrapping_add(idle.refresh_ticks());
        Tick::new(end).elapsed_since(self.now).as_secs()
    }

    fn next_hop(&self) -> Option<NextHop> {
        match self.decision.route?.1.target {
            Target::Shard { next_hop, .. } => Some(next_hop),
            Target::Group { .. } => {
                let slot = self.decision.choice?.member?.slot;
                self.group()?.member(slot)?.next_hop
            }
            _ => None,
        }
    }

    fn hop(&self) -> Option<ExplainedHop> {
        let (source, destination) = self.decision.outer?;
        let Action::Redirect { ifindex } = self.decision.action else {
            return None;
        };
        let next_hop = self.next_hop();
        Some(ExplainedHop {
            source,
            destination,
            ifindex,
            mac: next_hop.map(|hop| hop.destination()),
            mtu: next_hop.map(|hop| hop.mtu().get()),
        })
    }

    fn why(&self, pin: Option<&ExplainedPin>) -> String {
        let end = self.decision.end;
        if end != End::Group {
            let text = end.explanation();
            let is_disabled =
                end == End::NoTenant && self.world.tenants.contains_key(&self.ifindex);
            return match is_disabled {
                true => "The tenant is disabled at this interface.".to_owned(),
                false => text.to_owned(),
            };
        }
        let idle = pin.and_then(|pin| pin.idle_seconds).unwrap_or(0);
        match pin.map(|pin| pin.fate) {
            None => "The group's table decides: the group has no pins.".to_owned(),
            Some(None) => "The group's table decides.".to_owned(),
            Some(Some(PinFate::Followed | PinFate::Refreshed)) => {
                format!("Its pin decides, which a packet used {idle} s ago.")
            }
            Some(Some(PinFate::New)) => {
                "The group's table decides: it has no pin yet, and gets one.".to_owned()
            }
            Some(Some(PinFate::NoRoom)) => {
                "The group's table decides: it has no pin, and there is no room for one.".to_owned()
            }
            Some(Some(PinFate::NoQuota)) => "The group's table decides: it has no pin, and the \
                 tenant has as many as it may have."
                .to_owned(),
            Some(Some(_)) => format!(
                "The group's table decides: its pin, used {idle} s ago, does not hold any more."
            ),
        }
    }
}
