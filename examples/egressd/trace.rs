// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `trace`: what the program does with frames of a capture, and why.

use std::path::{Path, PathBuf};

use clap::Args;
use guideway::capture::{self, CaptureError, Frame};
use guideway::egress::trace::{TraceDocument, TracedPacket};
use guideway::egress::Egress;
use guideway::error::ErrorKind;
use guideway::kernel::statedir::StateDir;

use crate::explain::{explain_text, verdict_text, WhoArgs};
use crate::tool::text::Table;
use crate::tool::{input, Done, Failure, Output};

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// pcap or pcapng file of Ethernet frames, or hexadecimal text with a frame a line; - is
    /// standard input
    file: PathBuf,
    #[command(flatten)]
    who: WhoArgs,
}

pub(crate) fn run(
    arguments: &TraceArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let bytes = input::read(&arguments.file)?;
    let frames = frames(&bytes, &arguments.file)?;
    let egress = Egress::open(state)?;
    let (ifindex, _) = egress.find_tenant(arguments.who.who()?)?;
    let document = egress.trace(frames, ifindex)?;
    output.result(&document, text)?;
    match (document.summary.disagreements, document.summary.errors) {
        (0, 0) => Ok(Done::Well),
        (0, _) => Ok(Done::Partly),
        (disagreements, _) => {
            let message = format!(
                "program and model disagree about {disagreements} of {} packets: a fault of guideway",
                document.summary.packets
            );
            Err(Failure::new(ErrorKind::Kernel, message).about(input::name(&arguments.file)))
        }
    }
}

fn frames<'a>(bytes: &'a [u8], path: &Path) -> Result<Vec<Frame<'a>>, Failure> {
    let invalid = |message: String| {
        let name = input::name(path);
        Failure::new(ErrorKind::Invalid, format!("{name}: {message}")).about(name)
    };
    match (capture::read(bytes), std::str::from_utf8(bytes)) {
        (Ok(frames), _) => Ok(frames.collect()),
        (Err(CaptureError::Form { .. }), Ok(text)) => {
            let lines = (1..).zip(text.lines());
            let lines = lines.filter(|(_, line)| !line.trim().is_empty());
            let frames = (0..).zip(lines).map(|(index, (number, line))| {
                let bytes = capture::from_hex(line)
                    .map_err(|error| invalid(format!("line {number}: {error}")))?;
                Ok(Frame::new(index, bytes))
            });
            frames.collect()
        }
        (Err(error), _) => Err(invalid(error.to_string())),
    }
}

fn text(document: &TraceDocument) -> String {
    let mut text = format!(
        "tenant {} at {}, program {} tag {}{}, {} pins met\n",
        document.table,
        document.interface,
        document.program.name,
        document.program.tag,
        match document.program.is_live {
            true => "",
            false => " (NOT the instance's)",
        },
        document.pins_copied,
    );
    for packet in &document.packets {
        packet_text(packet, &mut text);
    }
    let summary = &document.summary;
    text.push_str(&format!(
        "\n{} packets: {} redirect, {} answer, {} next, {} drop, {} errors, {} disagreements\n",
        summary.packets,
        summary.redirect,
        summary.answer,
        summary.next,
        summary.drop,
        summary.errors,
        summary.disagreements,
    ));
    let mut table = Table::new(2, &["", "packets"], &[1]);
    for (end, count) in &summary.by_end {
        table.row([end, count]);
    }
    table.write(&mut text);
    text
}

fn packet_text(packet: &TracedPacket, text: &mut String) {
    text.push_str(&format!("\n#{} {} bytes", packet.index, packet.length));
    if let Some(verdict) = packet.verdict {
        text.push_str(&format!(": {}", verdict_text(verdict)));
    }
    if let Some(end) = packet.end {
        text.push_str(&format!(", {end}"));
    }
    if let Some(shard) = packet.shard {
        text.push_str(&format!(", shard {shard}"));
    }
    if let Some(output) = &packet.output {
        text.push_str(&format!(", {} bytes out", output.len() / 2));
    }
    text.push('\n');
    if let Some(explain) = &packet.explain {
        explain_text(explain, text);
    }
    if let Some(disagreement) = &packet.disagreement {
        text.push_str(&format!(
            "  DISAGREEMENT, program and model: {disagreement}\n"
        ));
    }
    if let Some(error) = &packet.error {
        text.push_str(&format!("  ERROR {error}\n"));
    }
}
