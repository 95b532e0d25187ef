// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A frame's way through the program.

use super::answer::answer;
use super::inner::{self, Inner};
use super::mss::clamp;
use super::outer::{check_length, encapsulate, Hop};
use super::world::reachable;
use super::{Action, By, Choice, Chosen, Decision, Packet, Pin, PinFate, Pins, World};
use crate::encap::{Ecn, Encap};
use crate::group::{HashMode, Member, Snapshot};
use crate::pin::{Flow, Holder};
use crate::placement::{Family, Fnv12, Fnv5, Scope};
use crate::reason::egress::{End, EndKind, Selection};
use crate::route::{Block, Route, Target};
use crate::tenant::Tenant;

/// What the program does with a frame in this world, given the pins that earlier frames left; what
/// this one leaves is there afterwards.
pub fn decide(world: &World, pins: &mut Pins, packet: &Packet<'_>) -> Decision {
    let decision = Decision {
        action: Action::Drop,
        end: End::BadRoute,
        tenant: None,
        route: None,
        choice: None,
        outer: None,
        counters: Vec::new(),
        slot: None,
        output: packet.frame.to_vec(),
    };
    let mut run = Run {
        world,
        packet,
        pins,
        decision,
    };
    let end = run.follow().unwrap_or_else(|end| end);
    let mut decision = run.decision;
    decision.end = end;
    if end == End::Pass || end.kind() == EndKind::Skip {
        decision.action = Action::Next;
    }
    decision.counters.sort_unstable();
    decision
}

/// A frame on its way.
struct Run<'a> {
    world: &'a World,
    packet: &'a Packet<'a>,
    pins: &'a mut Pins,
    decision: Decision,
}

/// An end before the packet was sent.
struct Stop {
    end: End,
    /// Whether its sender is told, if the tenant wants that.
    answered: bool,
    /// Of the link that it does not fit.
    link_mtu: u32,
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        Self {
            end,
            answered: false,
            link_mtu: 0,
        }
    }
}

impl<'a> Run<'a> {
    /// Up to its end; an error is one before the packet was sent. The next program gets what ends before
    /// a route matches.
    fn follow(&mut self) -> Result<End, End> {
        let (world, packet) = (self.world, self.packet);
        let family = inner::family(packet)?;
        let tenant = world.tenant(packet.ifindex).ok_or(End::NoTenant)?;
        self.decision.tenant = Some(*tenant);
        let inner = Inner::parse(packet, family)?;
        let encap = world.encap.as_ref().ok_or(End::NoSource)?;
        let (key, route) = world
            .route(tenant.table, inner.destination)
            .ok_or(End::NoRoute)?;
        self.decision.route = Some((*key, *route));
        let Stop {
            end,
            answered,
            link_mtu,
        } = match self.send(route, tenant, encap, &inner) {
            Ok(end) => return Ok(end),
            Err(stop) => stop,
        };
        if !answered || !tenant.icmp {
            return Err(end);
        }
        self.decision.output = answer(packet, &inner, tenant, encap.icmp, (end, link_mtu))?;
        self.decision.action = Action::Answer;
        Ok(match end {
            End::TooBig => End::IcmpSent,
            _ => End::UnreachSent,
        })
    }

    /// Goes where the route says.
    fn send(
        &mut self,
        route: &Route,
        tenant: &Tenant,
        encap: &Encap,
        inner: &Inner<'_>,
    ) -> Result<End, Stop> {
        let (end, hop) = match route.target {
            Target::Pass => return Ok(End::Pass),
            Target::Block(block) => {
                return Err(Stop {
                    answered: block == Block::Unreachable,
                    ..End::Blocked.into()
                })
            }
            Target::Shard {
                argument,
                sid,
                next_hop,
            } => {
                let hop = Hop {
                    next_hop,
                    destination: sid.with_argument(argument),
                    ecn: encap.ecn,
                };
                (End::Shard, hop)
            }
            Target::Group {
                argument,
                group,
                incarnation,
                fnv5,
                fnv12,
            } => {
                let group = self.world.group(group, incarnation)?;
                let placed = place(group, (fnv5, fnv12), tenant, inner)?;
                let member = self.select(group, placed, tenant);
                let member = member.map_err(|end| Stop {
                    answered: end == End::GroupEmpty && group.settings.reject,
                    ..end.into()
                })?;
                let hop = Hop {
                    next_hop: member.next_hop.ok_or(End::MemberDead)?,
                    destination: member.sid.with_argument(argument),
                    ecn: match group.settings.ecn_normal {
                        true => Ecn::Normal,
                        false => encap.ecn,
                    },
                };
                (End::Group, hop)
            }
        };

        check_length(self.packet, inner, hop.next_hop).map_err(|end| Stop {
            answered: end == End::TooBig && encap.too_big && inner.has_told_size(),
            link_mtu: hop.next_hop.mtu().get(),
            ..end.into()
        })?;
        let source = encap.node_sid.with_argument(tenant.argument);
        self.decision.outer = Some((source, hop.destination));
        let frame = clamp(self.packet, inner, encap, tenant);
        self.decision.output = encapsulate(&frame, inner, encap, source, &hop);
        self.decision.action = Action::Redirect {
            ifindex: hop.next_hop.ifindex(),
        };
        let choice = self.decision.choice;
        self.decision.slot = choice.and_then(|choice| Some((choice.group, choice.member?.slot)));
        Ok(end)
    }

    /// The member that the packet's pin names while that holds, else the table's.
    fn select(
        &mut self,
        group: &'a Snapshot,
        placed: Placed,
        tenant: &Tenant,
    ) -> Result<&'a Member, End> {
        let Placed {
            hash,
            states_agree,
            holder,
        } = placed;
        let pinned = !group.settings.pin_idle.is_off();
        let word = self.world.limits.table_size().slot_by_modulo(hash);
        let choice = self.decision.choice.insert(Choice {
            group: group.group,
            hash,
            word,
            states_agree,
            holder: pinned.then_some(holder),
            pin: None,
            member: None,
        });
        if pinned {
            let followed = look_at_pin(self.pins, group, &holder, self.packet.now_tick);
            let (fate, member) =
                followed.map_or((None, None), |(fate, member)| (Some(fate), member));
            choice.pin = fate;
            self.decision.counters.extend(match fate {
                Some(PinFate::Followed | PinFate::Refreshed) => Some(Selection::PinHit),
                Some(PinFate::Stale) => Some(Selection::PinStale),
                Some(PinFate::Torn) => Some(Selection::PinTorn),
                _ => None,
            });
            if let Some(member) = member {
                choice.member = Some(chosen(By::Pin, member));
                return Ok(member);
            }
        }
        let member = self.world.member_by_table(group, word)?;
        self.decision.counters.push(Selection::Maglev);
        choice.member = Some(chosen(By::Table, member));
        let written = match choice.pin {
            None if pinned => Some(self.pin_anew(holder, member, tenant)),
            Some(PinFate::Stale) => Some(self.replace_pin(&holder, member)),
            _ => None,
        };
        if let (Some((fate, counter)), Some(choice)) = (written, &mut self.decision.choice) {
            choice.pin = Some(fate);
            self.decision.counters.push(counter);
        }
        Ok(member)
    }

    /// Gives the packet's address or flow a pin.
    fn pin_anew(
        &mut self,
        holder: Holder,
        member: &Member,
        tenant: &Tenant,
    ) -> (PinFate, Selection) {
        let now_tick = self.packet.now_tick;
        let tag = holder.tag();
        let pin = Pin {
            slot: member.slot.get(),
            generation: member.generation.get(),
            dead: false,
            // Two pins of a slot shall seldom be the same word.
            sequence: ((tag ^ now_tick) as u8).wrapping_add(1),
            last_seen_tick: now_tick,
            tag,
        };
        let counter = self.pins.add(holder, pin, tenant.pin_quota);
        let fate = match counter {
            Selection::PinNew => PinFate::New,
            Selection::PinQuota => PinFate::NoQuota,
            _ => PinFate::NoRoom,
        };
        (fate, counter)
    }

    /// Makes a stale pin one of the table's member.
    fn replace_pin(&mut self, holder: &Holder, member: &Member) -> (PinFate, Selection) {
        if let Some(pin) = self.pins.pins.get_mut(holder) {
            pin.slot = member.slot.get();
            pin.generation = member.generation.get();
            pin.sequence = pin.sequence.wrapping_add(1);
            pin.last_seen_tick = self.packet.now_tick;
        }
        (PinFate::Replaced, Selection::PinReplaced)
    }
}

/// What a pin comes to, and the member that it leads to; none if there is no pin.
fn look_at_pin<'a>(
    pins: &mut Pins,
    group: &'a Snapshot,
    holder: &Holder,
    now_tick: u32,
) -> Option<(PinFate, Option<&'a Member>)> {
    let pin = pins.pins.get_mut(holder)?;
    if pin.tag != holder.tag() {
        return Some((PinFate::Torn, None));
    }
    if pin.dead {
        return Some((PinFate::Dead, None));
    }
    let idle = group.settings.pin_idle;
    // Both are far below 2^31: at most 30 days.
    let [life, refresh] = [idle.ticks(), idle.refresh_ticks()].map(|ticks| ticks as i32);
    let idle_ticks = pin.idle_ticks(now_tick);
    let member = reachable(group, pin.slot)
        .filter(|member| member.generation.get() == pin.generation)
        .filter(|_| idle_ticks <= life + refresh);
    Some(match member {
        None => (PinFate::Stale, None),
        Some(member) if idle_ticks < refresh => (PinFate::Followed, Some(member)),
        Some(member) => {
            pin.last_seen_tick = now_tick;
            (PinFate::Refreshed, Some(member))
        }
    })
}

const fn chosen(by: By, member: &Member) -> Chosen {
    Chosen {
        slot: member.slot,
        generation: member.generation,
        sid: member.sid,
        by,
    }
}

/// What a group makes of a packet.
struct Placed {
    hash: u32,
    /// Whether the route's states of the hash are those of tenant and group.
    states_agree: bool,
    /// Whose pin the packet's is.
    holder: Holder,
}

/// Places a packet by the states of the hash that its route carries.
fn place(
    group: &Snapshot,
    states: (Fnv5, Fnv12),
    tenant: &Tenant,
    inner: &Inner<'_>,
) -> Result<Placed, End> {
    let (fnv5, fnv12) = states;
    let family = Family::of(inner.source);
    let scope = Scope {
        table: tenant.hash_table,
        group: group.hash_group,
    };
    let states_agree = states == (Fnv5::new(scope.table, family), Fnv12::new(scope, family));
    let by_source = Holder {
        table: tenant.table,
        group: group.group,
        source: inner.source,
        flow: None,
    };
    if group.settings.hash_mode == HashMode::Source {
        return Ok(Placed {
            hash: fnv12.source(inner.source),
            states_agree,
            holder: by_source,
        });
    }
    let fields = inner.flow()?;
    let flow = Flow {
        protocol: fields.protocol(),
        source_port: fields.ports().source,
        destination: fields.destination(),
        destination_port: fields.ports().destination,
    };
    Ok(Placed {
        hash: fnv5.flow(group.hash_group, &fields),
        states_agree,
        holder: Holder {
            flow: Some(flow),
            ..by_source
        },
    })
}
