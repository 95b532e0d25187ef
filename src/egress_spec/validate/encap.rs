// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How packets are encapsulated: what the document says, over the profile's defaults.

use super::super::members::{encap as members, mss, rate, root};
use super::super::spec::Profile;
use crate::document::field::Field;
use crate::document::reader::{Checked, Reader, Report};
use crate::encap::{Encap, Mss, Rate};
use crate::srv6::NodeSid;

pub(super) fn read(
    parent: &Reader<'_>,
    node_sid: Checked<NodeSid>,
    report: &mut Report,
) -> Checked<Encap> {
    let reader = parent.object_or_empty(&root::ENCAP, report)?;
    let profile = reader.get(&members::PROFILE, report);
    let hop_limit = reader.optional(&members::HOP_LIMIT, report);
    let dscp = reader.optional(&members::DSCP, report);
    let ecn = reader.optional(&members::ECN, report);
    let flow_label = reader.optional(&members::FLOW_LABEL, report);
    let too_big = reader.optional(&members::TOO_BIG, report);
    let mss = mss_of(&reader, report);
    let icmp = rate_of(&reader, &members::ICMP, report);
    let events = rate_of(&reader, &members::EVENTS, report);

    let node_sid = node_sid?;
    let base = match profile? {
        Profile::Standard => Encap::standard(node_sid),
        Profile::Compat => Encap::compat(node_sid),
    };
    Ok(Encap {
        node_sid,
        hop_limit: hop_limit?.unwrap_or(base.hop_limit),
        dscp: dscp?.unwrap_or(base.dscp),
        ecn: ecn?.unwrap_or(base.ecn),
        flow_label: flow_label?.unwrap_or(base.flow_label),
        too_big: too_big?.unwrap_or(base.too_big),
        mss: mss?.or(base.mss),
        icmp: icmp?.over(base.icmp),
        events: events?.over(base.events),
    })
}

fn mss_of(parent: &Reader<'_>, report: &mut Report) -> Checked<Option<Mss>> {
    let Some(reader) = parent.object(&members::MSS, report)? else {
        return Ok(None);
    };
    let ipv6 = reader.get(&mss::IPV6, report);
    let ipv4 = reader.get(&mss::IPV4, report);
    Ok(Some(Mss {
        ipv6: ipv6?,
        ipv4: ipv4?,
    }))
}

/// What the document says of a rate.
#[derive(Clone, Copy)]
struct GivenRate {
    per_second: Option<u32>,
    burst: Option<u32>,
}

impl GivenRate {
    fn over(self, base: Rate) -> Rate {
        Rate {
            per_second: self.per_second.unwrap_or(base.per_second),
            burst: self.burst.unwrap_or(base.burst),
        }
    }
}

fn rate_of(parent: &Reader<'_>, field: &Field<()>, report: &mut Report) -> Checked<GivenRate> {
    let reader = parent.object_or_empty(field, report)?;
    let per_second = reader.optional(&rate::PER_SECOND, report);
    let burst = reader.optional(&rate::BURST, report);
    Ok(GivenRate {
        per_second: per_second?,
        burst: burst?,
    })
}
