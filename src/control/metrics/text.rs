// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The text that a scrape gets: OpenMetrics 1.0, and the older format of Prometheus.
#![forbid(unsafe_code)]

use std::fmt::{self, Display, Write};

use super::counts::Histogram;
use super::registry::{Kind, Metric};

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// OpenMetrics 1.0.0.
    #[default]
    OpenMetrics,
    /// Prometheus' own, version 0.0.4: for who reads nothing else.
    Plain,
}

impl Format {
    /// The format for who sends this `Accept` header: OpenMetrics unless it prefers plain text and
    /// says so, also by naming that alone.
    #[must_use]
    pub fn accepted(header: &str) -> Self {
        let mut plain = 0;
        let mut open = 0;
        for range in header.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality = quality.map_or(1000, thousandths);
            let is = |name: &str| kind.eq_ignore_ascii_case(name);
            if is("application/openmetrics-text") {
                open = quality.max(open);
            } else if is("text/plain") || is("text/*") {
                plain = quality.max(plain);
            } else if is("*/*") || is("application/*") {
                // Whoever takes anything takes the better one.
                open = quality.max(open);
            }
        }
        if plain > open {
            Self::Plain
        } else {
            Self::OpenMetrics
        }
    }

    /// The value of the `Content-Type` header.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A quality of HTTP in thousandths; what is none counts as the most.
fn thousandths(quality: &str) -> u32 {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match quality.split_once('.') {
        None if quality == "0" => 0,
        Some(("0", part)) if part.len() <= 3 && digits(part) => {
            format!("{part:0<3}").parse().unwrap_or(1000)
        }
        _ => 1000,
    }
}

/// Metrics as they are written, one after the other.
#[derive(Debug)]
pub(super) struct Exposition {
    text: String,
    format: Format,
}

/// A label and its value.
pub(super) type Pair<'a> = (&'static str, &'a dyn Display);

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self {
            text: String::with_capacity(16 << 10),
            format,
        }
    }

    /// Begins a metric. All its samples come before the next one begins.
    pub(super) fn metric(&mut self, metric: &'static Metric) -> Family<'_> {
        let name = match self.format {
            Format::OpenMetrics => metric.family(),
            Format::Plain => metric.name(),
        };
        let kind = metric.kind.name();
        self.line(format_args!("# TYPE {name} {kind}"));
        if let (Some(unit), Format::OpenMetrics) = (metric.unit, self.format) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        let help = Escaped(metric.help, self.format == Format::OpenMetrics);
        self.line(format_args!("# HELP {name} {help}"));
        Family {
            exposition: self,
            metric,
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.text
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // A string takes everything.
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }
}

/// The metric that is being written.
pub(super) struct Family<'a> {
    exposition: &'a mut Exposition,
    metric: &'static Metric,
}

impl Family<'_> {
    /// Writes a sample of a counter or a gauge.
    pub(super) fn sample(&mut self, labels: &[Pair<'_>], value: impl Display) {
        self.one("", labels, value);
    }

    /// Writes all samples of a histogram.
    pub(super) fn histogram(&mut self, labels: &[Pair<'_>], histogram: &Histogram) {
        debug_assert_eq!(self.metric.kind, Kind::Histogram);
        for (bound, count) in histogram.buckets() {
            let bound = Float(bound.as_secs_f64());
            self.one("_bucket", &with(labels, &bound), count);
        }
        let count = histogram.count();
        self.one("_bucket", &with(labels, &"+Inf"), count);
        self.one("_count", labels, count);
        self.one("_sum", labels, Float(histogram.sum().as_secs_f64()));
    }

    fn one(&mut self, suffix: &str, labels: &[Pair<'_>], value: impl Display) {
        let name = self.metric.name();
        let labels = Labels(labels);
        self.exposition
            .line(format_args!("{name}{suffix}{labels} {value}"));
    }
}

fn with<'a>(labels: &[Pair<'a>], bound: &'a dyn Display) -> Vec<Pair<'a>> {
    labels.iter().copied().chain([("le", bound)]).collect()
}

/// A number as other programs write it, too: whole ones with `.0`.
pub(super) struct Float(pub(super) f64);

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

struct Labels<'a>(&'a [Pair<'a>]);

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            let begin = if place == 0 { '{' } else { ',' };
            let value = value.to_string();
            write!(f, "{begin}{name}=\"{}\"", Escaped(&value, true))?;
        }
        match self.0 {
            [] => Ok(()),
            _ => f.write_char('}'),
        }
    }
}

/// A text without line feeds, backslashes and, if asked for, quotes.
struct Escaped<'a>(&'a str, bool);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.1 => f.write_str("\\\"")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::registry;
    use super::*;

    static BOUNDS: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::new(Format::OpenMetrics);
        let mut metric = text.metric(&registry::BUILD_INFO);
        metric.sample(&[("version", &"a\"b\\c\nd"), ("abi", &1.5)], 1);
        let text = text.finish();
        let sample = r#"guideway_egress_build_info{version="a\"b\\c\nd",abi="1.5"} 1"#;
        assert!(text.contains(&format!("{sample}\n")), "{text}");
    }

    #[test]
    fn a_histogram_accumulates() {
        let mut histogram = Histogram::new(&BOUNDS);
        for milliseconds in [5, 250, 2000] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        for format in [Format::OpenMetrics, Format::Plain] {
            let mut text = Exposition::new(format);
            let mut metric = text.metric(&registry::BARRIER_WAIT);
            metric.histogram(&[("side", &"shared")], &histogram);
            let text = text.finish();
            let samples =
                "guideway_egress_barrier_wait_seconds_bucket{side=\"shared\",le=\"0.005\"} 1
guideway_egress_barrier_wait_seconds_bucket{side=\"shared\",le=\"1.0\"} 2
guideway_egress_barrier_wait_seconds_bucket{side=\"shared\",le=\"+Inf\"} 3
guideway_egress_barrier_wait_seconds_count{side=\"shared\"} 3
guideway_egress_barrier_wait_seconds_sum{side=\"shared\"} 2.255
";
            assert!(text.contains(samples), "{text}");
        }
    }

    #[test]
    fn each_format_names_a_counter_its_way() {
        let of = |format| {
            let mut text = Exposition::new(format);
            let mut metric = text.metric(&registry::SHARD_BYTES);
            metric.sample(&[("shard_sid", &"2001:db8::"), ("class", &"nat66")], 7);
            text.finish()
        };
        let open = of(Format::OpenMetrics);
        assert!(open.starts_with("# TYPE guideway_egress_shard_bytes counter\n# UNIT guideway_egress_shard_bytes bytes\n"), "{open}");
        assert!(open.ends_with("\n# EOF\n"));
        let plain = of(Format::Plain);
        assert!(plain.starts_with("# TYPE guideway_egress_shard_bytes_total counter\n# HELP guideway_egress_shard_bytes_total "), "{plain}");
        assert!(!plain.contains("EOF") && !plain.contains("UNIT"));
        for text in [open, plain] {
            let sample =
                "\nguideway_egress_shard_bytes_total{shard_sid=\"2001:db8::\",class=\"nat66\"} 7\n";
            assert!(text.contains(sample), "{text}");
        }
    }

    #[test]
    fn plain_text_is_for_who_prefers_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,\
             text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (header, format) in [
            (prometheus, Format::OpenMetrics),
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/plain", Format::Plain),
            ("Text/Plain; charset=utf-8, */*;q=0.1", Format::Plain),
            (
                "text/plain;q=0.5, application/openmetrics-text",
                Format::OpenMetrics,
            ),
            ("text/plain;q=0, */*;q=0.001", Format::OpenMetrics),
            ("text/plain;q=nonsense, */*;q=0.9", Format::Plain),
        ] {
            assert_eq!(Format::accepted(header), format, "{header}");
        }
    }
}
