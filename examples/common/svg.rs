// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Line charts as SVG text, side by side on one page.

#![allow(dead_code)] // each program uses a part

use std::fmt::{self, Write};

/// One set of axes with lines.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// In the order of the legend.
    pub(crate) lines: Vec<Line>,
}

/// An axis from its first tick to its last. Points beyond are drawn at the end they are beyond of,
/// so a zero has a place on a logarithmic axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) label: String,
    /// At least two different values, ascending; above zero on a logarithmic axis.
    pub(crate) ticks: Vec<f64>,
    pub(crate) logarithmic: bool,
}

/// Points joined in order.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Size of the area between the axes, and the room around it, in pixels.
pub(crate) const PLOT: (f64, f64) = (420.0, 300.0);
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const BELOW: f64 = 60.0;
const RIGHT: f64 = 20.0;
const LEGEND_LINE: f64 = 18.0;

/// Told apart by people with any kind of colour vision (Okabe and Ito).
const COLORS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#b8a800",
];
/// Lines beyond the colours are dashed.
const DASHES: [&str; 3] = ["", "7 4", "2 3"];

impl Axis {
    pub(crate) fn linear(label: &str, ticks: &[f64]) -> Self {
        Self {
            label: label.into(),
            ticks: ticks.into(),
            logarithmic: false,
        }
    }

    pub(crate) fn logarithmic(label: &str, ticks: &[f64]) -> Self {
        Self {
            logarithmic: true,
            ..Self::linear(label, ticks)
        }
    }

    /// Where a value lies between the ends, 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let first = self.ticks.first().copied().unwrap_or(0.0);
        let last = self.ticks.last().copied().unwrap_or(1.0);
        let value = value.clamp(first, last);
        if self.logarithmic {
            (value.ln() - first.ln()) / (last.ln() - first.ln())
        } else {
            (value - first) / (last - first)
        }
    }
}

/// The whole page, one chart beside the other.
pub(crate) fn page(charts: &[Chart]) -> String {
    let mut out = String::new();
    let most = charts.iter().map(|chart| chart.lines.len()).max();
    let width = (LEFT + PLOT.0 + RIGHT) * charts.len() as f64;
    let height = TOP + PLOT.1 + BELOW + LEGEND_LINE * most.unwrap_or(0) as f64;
    // Writing to a string does not fail.
    let _ = draw(&mut out, charts, (width, height));
    out
}

fn draw(out: &mut String, charts: &[Chart], (width, height): (f64, f64)) -> fmt::Result {
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(out, r##"<rect width="100%" height="100%" fill="#fff"/>"##)?;
    for (number, chart) in charts.iter().enumerate() {
        let left = LEFT + (LEFT + PLOT.0 + RIGHT) * number as f64;
        writeln!(out, r#"<g transform="translate({left} {TOP})">"#)?;
        axes(out, chart)?;
        for (number, line) in chart.lines.iter().enumerate() {
            plot(out, chart, number, line)?;
        }
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

fn axes(out: &mut String, chart: &Chart) -> fmt::Result {
    let (width, height) = PLOT;
    text(
        out,
        (width / 2.0, -20.0),
        "middle",
        &chart.title,
        r#" font-size="15""#,
    )?;
    for &tick in &chart.x.ticks {
        let x = chart.x.place(tick) * width;
        writeln!(out, r##"<path d="M{x:.1} 0V{height}" stroke="#ddd"/>"##)?;
        text(out, (x, height + 18.0), "middle", &tick.to_string(), "")?;
    }
    for &tick in &chart.y.ticks {
        let y = (1.0 - chart.y.place(tick)) * height;
        writeln!(out, r##"<path d="M0 {y:.1}H{width}" stroke="#ddd"/>"##)?;
        text(out, (-8.0, y + 4.0), "end", &tick.to_string(), "")?;
    }
    writeln!(
        out,
        r##"<path d="M0 0V{height}H{width}" fill="none" stroke="#333"/>"##
    )?;
    text(
        out,
        (width / 2.0, height + 38.0),
        "middle",
        &chart.x.label,
        "",
    )?;
    let turned = format!(r#" transform="rotate(-90 -48 {})""#, height / 2.0);
    text(
        out,
        (-48.0, height / 2.0),
        "middle",
        &chart.y.label,
        &turned,
    )
}

fn plot(out: &mut String, chart: &Chart, number: usize, line: &Line) -> fmt::Result {
    let (width, height) = PLOT;
    let color = COLORS[number % COLORS.len()];
    let dash = DASHES[number / COLORS.len() % DASHES.len()];
    let style =
        format!(r#"fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}""#);
    let place = |&(x, y): &(f64, f64)| {
        let y = (1.0 - chart.y.place(y)) * height;
        (chart.x.place(x) * width, y)
    };
    let points: Vec<_> = line.points.iter().map(place).collect();
    let path: Vec<_> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    writeln!(out, r#"<polyline points="{}" {style}/>"#, path.join(" "))?;
    for (x, y) in &points {
        writeln!(
            out,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{color}"/>"#
        )?;
    }
    let y = height + BELOW + LEGEND_LINE * number as f64 - 4.0;
    writeln!(out, r#"<path d="M0 {y}h26" {style}/>"#)?;
    text(out, (34.0, y + 4.0), "start", &line.name, "")
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str, more: &str) -> fmt::Result {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}"{more}>{text}</text>"#
    )
}
