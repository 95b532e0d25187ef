// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop that keeps an instance in line says of itself, for whoever looks at the instance.
//!
//! It is a record beside the snapshots: gone when they are, whole whenever it is read, and there when
//! the process that wrote it is not. Packets and the loop itself never read it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::instance::{Egress, Writer};
use crate::error::ErrorKind;
use crate::kernel::map::Map;
use crate::kernel::record::{self, RecordError};
use crate::kernel::statedir::Section;
use crate::kernel::SysError;

/// Name of the record, in the kernel's listings.
const RECORD: &str = "gw_eg_loop";
/// Names of its pin, and of the pin of the one that takes its place.
const PIN: &str = "loop";
const NEXT: &str = "loop-next";
/// Failures that are written down; there may be more.
const MOST_FAILURES: usize = 8;
/// A loop that had no success in so many intervals does not do its work.
const STALE_INTERVALS: u32 = 4;

/// How a loop has tenants' packets find their shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LoopMode {
    /// All go to the first shard of a list that is reached.
    Ordered,
    /// They are spread over groups of shards.
    Hashed,
}

/// Names the form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum LoopReportForm {
    #[serde(rename = "guideway.egress.loop/v1")]
    V1,
}

/// What a loop that keeps an instance in line says after a sweep. Times are those of the monotonic
/// clock, which ends with the instance: both are gone after a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopReport {
    form: LoopReportForm,
    /// How packets find their shard.
    pub mode: LoopMode,
    /// The classes that each tenant should have routes for, as texts.
    pub classes: Vec<String>,
    /// Active members that each group should have at least.
    pub pool_min_active: u32,
    /// The longest time between two sweeps, in nanoseconds; none of a loop that sweeps once.
    pub interval_ns: Option<u64>,
    /// Why no current list of shards is held; none if one is, or if none is needed.
    pub unsynced: Option<String>,
    /// In ordered mode, classes whose packets are led to no shard that is reached, and why. In the
    /// other one their groups tell.
    #[serde(default)]
    pub unserved: BTreeMap<String, String>,
    /// Since when a success is due: when the loop began, or a success before.
    pub since_ns: u64,
    /// When the last sweep ended.
    pub swept_ns: u64,
    /// When the last one ended that did not fail; none before that.
    pub succeeded_ns: Option<u64>,
    /// What failed in the last sweep: the first of it.
    pub failures: Vec<String>,
}

impl LoopReport {
    /// Of a loop in this mode that began `now` and has not swept. The rest is for its owner to fill
    /// in.
    #[must_use]
    pub const fn new(mode: LoopMode, now_ns: u64) -> Self {
        Self {
            form: LoopReportForm::V1,
            mode,
            classes: Vec::new(),
            pool_min_active: 0,
            interval_ns: None,
            unsynced: None,
            unserved: BTreeMap::new(),
            since_ns: now_ns,
            swept_ns: now_ns,
            succeeded_ns: None,
            failures: Vec::new(),
        }
    }

    /// Takes over from the loop before, whose successes count: one that starts again and again and
    /// never succeeds is found.
    pub fn succeeds(&mut self, before: &Self) {
        self.succeeded_ns = self.succeeded_ns.or(before.succeeded_ns);
        self.since_ns = self.since_ns.min(before.since_ns);
    }

    /// Takes in a sweep that has ended, and what failed in it.
    pub fn swept(&mut self, now_ns: u64, failures: impl IntoIterator<Item = String>) {
        self.swept_ns = now_ns;
        self.failures = failures.into_iter().take(MOST_FAILURES).collect();
        if self.failures.is_empty() {
            self.succeeded_ns = Some(now_ns);
        }
    }

    /// For how long no sweep has succeeded, if that is so long that the loop does not do its work:
    /// four times the longest time between two sweeps.
    #[must_use]
    pub fn stale(&self, now_ns: u64) -> Option<Duration> {
        let patience = STALE_INTERVALS * Duration::from_nanos(self.interval_ns?);
        let last = self.succeeded_ns.unwrap_or(self.since_ns);
        let ago = Duration::from_nanos(now_ns.saturating_sub(last));
        (ago > patience).then_some(ago)
    }
}

/// Why it is not known what a loop says of itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopReportError {
    /// It cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// It is of another version of this library, or makes no sense.
    #[error("what the loop says of itself makes no sense: {0}")]
    Corrupt(serde_json::Error),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl LoopReportError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Record(RecordError::Open(error)) => error.kind(),
            Self::Record(RecordError::Sys(error)) | Self::Sys(error) => error.kind(),
            Self::Record(RecordError::Corrupt { .. }) | Self::Corrupt(_) => ErrorKind::Incompatible,
        }
    }
}

impl Egress {
    /// What the loop that keeps the instance in line said last; none if there was none, or if
    /// somebody else has taken over since.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub fn loop_report(&self) -> Result<Option<LoopReport>, LoopReportError> {
        let bytes = match record::read(&self.dir.pin(Section::Generations, PIN), RECORD) {
            Ok(bytes) => bytes,
            Err(RecordError::Open(error)) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let report = serde_json::from_slice(&bytes).map_err(LoopReportError::Corrupt)?;
        Ok(Some(report))
    }

    /// Keeps what the loop said last for an instance that takes this one's place: `pin` tells where,
    /// by its name.
    pub(super) fn keep_loop_report(
        &self,
        pin: impl FnOnce(&str) -> PathBuf,
    ) -> Result<(), SysError> {
        match Map::open_any(&self.dir.pin(Section::Generations, PIN)) {
            Ok(record) => record.pin(&pin(PIN)),
            // Nobody said anything, or what is there is no record.
            Err(_) => Ok(()),
        }
    }
}

impl Writer {
    /// Says what the loop did, in place of what it said before. Takes less than a millisecond, and no
    /// packet waits for it.
    ///
    /// # Errors
    /// The kernel refuses; what was said before stays.
    pub fn report_loop(&mut self, report: &LoopReport) -> Result<(), LoopReportError> {
        let bytes = serde_json::to_vec(report).map_err(LoopReportError::Corrupt)?;
        let map = record::write(RECORD, &bytes)?;
        self.lock.unpin(Section::Generations, NEXT)?;
        map.pin(&self.dir.pin(Section::Generations, NEXT))?;
        self.lock.rename(Section::Generations, NEXT, PIN)?;
        Ok(())
    }

    /// Says that no loop keeps the instance in line any more; whether one said so.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn end_loop(&mut self) -> Result<bool, SysError> {
        self.lock.unpin(Section::Generations, NEXT)?;
        self.lock.unpin(Section::Generations, PIN)
    }
}
