// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `trace`: what the program does with given frames, and why.

use guideway::capture::{self, Frame};
use guideway::error::ErrorKind;
use guideway::oracle::{Ip, IpProtocol, Quic};
use guideway::plan::{Live, Options};
use guideway::quiclb::trace::{
    payload_frame, run as trace, Created, PayloadError, Reset, Scenario, SlotState, TraceDocument,
    TracedPacket, Verdict,
};
use guideway::quiclb::{decryption, observe, StateRoot};
use guideway::service::Spec;

use crate::affinity;
use crate::args::TraceArgs;
use crate::input::{self, Document};
use crate::tool::text::{or_dash, Table};
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &TraceArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let Wanted {
        name,
        live,
        spec,
        options,
    } = wanted(arguments, root)?;
    let mut world = observe().map_err(|error| Failure::new(error.kind(), &error))?;
    world.decryption = decryption();
    let mut scenario = Scenario::new(live.as_ref(), &spec, &world, options)
        .map_err(|faults| Failure::invalid(&name, &faults))?;
    if let Some(path) = &arguments.state {
        scenario.import(&affinity::read(path)?);
    }
    let reset = if arguments.fresh {
        Reset::BeforeEach
    } else {
        Reset::Never
    };
    let traced = |document: Result<TraceDocument, _>| {
        document.map_err(|error: guideway::quiclb::trace::TraceError| {
            Failure::new(error.kind(), &error).about(&name)
        })
    };
    let document = if let Some(path) = &arguments.frames.pcap {
        let bytes = input::read(path)?;
        let frames = capture::read(&bytes).map_err(|error| {
            let name = input::name(path);
            Failure::new(ErrorKind::Invalid, format!("{name}: {error}")).about(name)
        })?;
        traced(trace(&scenario, frames, reset))?
    } else {
        traced(trace(&scenario, made(arguments, &spec)?, reset))?
    };
    output.result(&document, text)?;
    match document.summary.errors {
        0 => Ok(Done::Well),
        _ => Ok(Done::Partly),
    }
}

/// What the frames meet.
struct Wanted {
    /// What the caller calls it.
    name: String,
    /// The generation whose rows it continues.
    live: Option<Live>,
    spec: Spec,
    options: Options,
}

fn wanted(arguments: &TraceArgs, root: &StateRoot) -> Result<Wanted, Failure> {
    match (&arguments.spec, arguments.from) {
        (Some(path), _) => {
            let name = input::name(path);
            let (spec, options) = match Document::parse(path, &input::read(path)?)? {
                Document::Spec(spec) => (spec, Options::default()),
                Document::Plan(file) => (file.spec, file.options),
            };
            Ok(Wanted {
                name,
                live: None,
                spec,
                options,
            })
        }
        (None, Some(instance)) => {
            let live = input::live(root, instance)?;
            Ok(Wanted {
                name: instance.to_string(),
                spec: live.spec().clone(),
                live: Some(live),
                options: Options::default(),
            })
        }
        (None, None) => Err(Failure::usage(
            "a specification or --from INSTANCE is needed",
        )),
    }
}

/// Frames that the command line holds.
fn made(arguments: &TraceArgs, spec: &Spec) -> Result<Vec<Frame<'static>>, Failure> {
    let (Some(payload), Some(service)) = (&arguments.frames.payload, &arguments.service) else {
        let frames = (0..).zip(&arguments.frames.hex);
        return Ok(frames
            .map(|(index, bytes)| Frame::new(index, bytes.0.clone()))
            .collect());
    };
    let frame = payload_frame(spec, service, arguments.source, &payload.0).map_err(|error| {
        let kind = match error {
            PayloadError::NoService { .. } => ErrorKind::NotFound,
            _ => ErrorKind::Invalid,
        };
        Failure::new(kind, &error).about(service)
    })?;
    Ok(vec![Frame::new(0, frame)])
}

fn text(document: &TraceDocument) -> String {
    let mut text = format!(
        "instance {}, program {} tag {}, {} instructions verified\n",
        document.instance_id,
        document.program.name,
        document.program.tag,
        document.program.verified_insns,
    );
    for note in &document.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    for packet in &document.packets {
        packet_text(packet, &mut text);
    }
    let summary = &document.summary;
    text.push_str(&format!(
        "\n{} packets: {} redirect, {} tx, {} pass, {} drop, {} aborted, {} errors\n",
        summary.packets,
        summary.redirect,
        summary.tx,
        summary.pass,
        summary.drop,
        summary.aborted,
        summary.errors,
    ));
    let mut table = Table::new(2, &["", "packets"], &[1]);
    for (reason, count) in &summary.by_reason {
        table.row([&format!("reason {reason}"), count]);
    }
    for (rule, count) in &summary.by_rule {
        table.row([&format!("rule {rule}"), count]);
    }
    table.write(&mut text);
    text
}

fn packet_text(packet: &TracedPacket, text: &mut String) {
    text.push_str(&format!("\n#{} {} bytes", packet.index, packet.length));
    for vlan in &packet.l2.vlans {
        text.push_str(&format!(", VLAN {vlan}"));
    }
    if let Some(ip) = &packet.ip {
        text.push_str(&format!(", {}", ip_text(ip)));
    }
    if let Some(icmp) = &packet.icmp {
        text.push_str(&format!(" type {} code {}", icmp.icmp_type, icmp.code));
        if let Some(ip) = &icmp.embedded {
            text.push_str(&format!(" about {}", ip_text(ip)));
        }
    }
    text.push('\n');
    if let Some(quic) = &packet.quic {
        text.push_str(&format!("  {}\n", quic_text(quic)));
    }
    if let Some(verdict) = packet.verdict {
        text.push_str(&format!("  -> {}", verdict_text(verdict)));
        if let Some(reason) = packet.reason {
            text.push_str(&format!(", {reason}"));
        }
        if let Some(rule) = packet.rule {
            text.push_str(&format!(" by {rule}"));
        }
        if let Some(service) = &packet.service {
            text.push_str(&format!(", service {}", service.name));
        }
        if let Some(backend) = &packet.backend {
            text.push_str(&format!(
                ", backend {} (row {}, {}) at {} on {}",
                backend.id, backend.row, backend.state, backend.mac, backend.interface,
            ));
        }
        text.push('\n');
    }
    if let (Some(hash), Some(slot)) = (&packet.hash, packet.slot) {
        let start = match packet.flow_start {
            Some(true) => ", can begin a flow",
            _ => "",
        };
        let state = match packet.slot_state {
            Some(SlotState::Open) => " (open)",
            Some(SlotState::Held) => " (held)",
            Some(SlotState::Plain) | None => "",
        };
        text.push_str(&format!("  hash {hash}, slot {slot}{state}{start}\n"));
    }
    for created in &packet.created {
        text.push_str(match created {
            Created::Flow => "  makes an entry for its flow\n",
            Created::Cid => "  binds its connection ID\n",
            _ => "  makes an entry\n",
        });
    }
    for change in packet.output.iter().flat_map(|output| &output.changed) {
        let (offset, from, to) = (change.offset, &change.from, &change.to);
        text.push_str(&format!("  bytes from {offset}: {from} -> {to}\n"));
    }
    if let Some(error) = &packet.error {
        text.push_str(&format!("  ERROR {error}\n"));
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Drop => "drop",
        Verdict::Redirect => "redirect",
        Verdict::Tx => "tx",
        Verdict::Aborted => "aborted",
    }
}

pub(crate) fn protocol_text(protocol: IpProtocol) -> String {
    match protocol {
        IpProtocol::Udp => "udp".into(),
        IpProtocol::Tcp => "tcp".into(),
        IpProtocol::Icmp => "icmp".into(),
        IpProtocol::Icmpv6 => "icmpv6".into(),
        IpProtocol::Other(number) => format!("protocol {number}"),
    }
}

fn ip_text(ip: &Ip) -> String {
    let end = |address: std::net::IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    };
    format!(
        "{} {} -> {}",
        protocol_text(ip.protocol),
        end(ip.source, ip.source_port),
        end(ip.destination, ip.destination_port),
    )
}

fn quic_text(quic: &Quic) -> String {
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = |bytes: &Option<Vec<u8>>| or_dash(bytes.as_ref().map(hex).map(|text: String| text));
    // Names that documents have, too.
    let name = |value: serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "QUIC {} {}, version {}, DCID {}, config {}, server ID {}, unroutable {}",
        name(serde_json::json!(quic.form)),
        name(serde_json::json!(quic.packet_type)),
        or_dash(quic.version.map(|version| format!("{version:08x}"))),
        hex(&quic.dcid),
        or_dash(quic.config_id),
        hex(&quic.server_id),
        name(serde_json::json!(quic.unroutable)),
    )
}
