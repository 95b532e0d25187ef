// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Claims about LRU tables, and what this kernel says about each.

use serde_json::{json, Value};

use super::measure;

/// Collects what is found and prints it at the end.
pub(crate) struct Report {
    /// Whether rows go to the file that `GW_BENCH_JSON` names.
    rows: bool,
    claims: Vec<Claim>,
}

struct Claim {
    claim: String,
    verdict: &'static str,
    reference: String,
    measured: String,
}

/// Whether a claim is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    Holds,
    Refuted,
}

impl Truth {
    pub(crate) fn of(holds: bool) -> Self {
        if holds {
            Self::Holds
        } else {
            Self::Refuted
        }
    }
}

/// `holds` or `refuted` where an earlier measurement found the same, otherwise `differs`.
pub(crate) fn verdict(found: Truth, earlier: Truth) -> &'static str {
    match (found, earlier) {
        (Truth::Holds, Truth::Holds) => "holds",
        (Truth::Refuted, Truth::Refuted) => "refuted",
        _ => "differs",
    }
}

impl Report {
    pub(crate) fn new(rows: bool) -> Self {
        Self {
            rows,
            claims: Vec::new(),
        }
    }

    /// A row for the machine; `case` and the fields of an object.
    pub(crate) fn row(&self, case: &str, fields: Value) {
        if !self.rows {
            return;
        }
        let mut row = json!({"part": "lru", "case": case});
        if let (Value::Object(row), Value::Object(fields)) = (&mut row, fields) {
            row.extend(fields);
        }
        measure::report(&row);
    }

    /// A claim, what an earlier measurement on Linux 6.18 said to it, and what this one does.
    pub(crate) fn claim(
        &mut self,
        claim: &str,
        (earlier, reference): (Truth, &str),
        (found, measured): (Truth, String),
    ) {
        let verdict = verdict(found, earlier);
        self.row(
            "claim",
            json!({"claim": claim, "verdict": verdict, "reference": reference, "measured": measured}),
        );
        self.claims.push(Claim {
            claim: claim.into(),
            verdict,
            reference: reference.into(),
            measured,
        });
    }

    pub(crate) fn print_claims(&self) {
        for claim in &self.claims {
            println!("{:<8} {}", claim.verdict, claim.claim);
            println!("{:<8}   here:    {}", "", claim.measured);
            println!("{:<8}   earlier: {}", "", claim.reference);
        }
    }
}
