// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every metric that there is: name, type, labels, and what it means.
#![forbid(unsafe_code)]

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// It only rises.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many were how long.
    Histogram,
}

impl Kind {
    /// Its name in the text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What it is counted in; none of things.
    pub unit: Option<&'static str>,
    /// The labels of each of its series, in their order.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub help: &'static str,
}

impl Metric {
    /// The whole name; that of a counter ends in `_total`, that of a histogram's series goes on with
    /// `_bucket`, `_count` and `_sum`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The name without the `_total` of counters.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.name.strip_suffix("_total").unwrap_or(self.name)
    }
}

macro_rules! metrics {
    ($($ident:ident = $kind:ident $name:literal [$($label:literal),*] $unit:expr, $help:literal;)+) => {
        $(
            pub(super) static $ident: Metric = Metric {
                name: concat!("guideway_egress_", $name),
                kind: Kind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// All metrics, in the order in which they are exported.
        pub static METRICS: &[&Metric] = &[$(&$ident),+];
    };
}

const THINGS: Option<&str> = None;
const BYTES: Option<&str> = Some("bytes");
const SECONDS: Option<&str> = Some("seconds");
const RATIO: Option<&str> = Some("ratio");

metrics! {
    SHARD_PACKETS = Counter "shard_packets_total" ["shard_sid", "class"] THINGS,
        "Packets of tenants that were encapsulated to the shard since it took its slot.";
    SHARD_BYTES = Counter "shard_bytes_total" ["shard_sid", "class"] BYTES,
        "Their bytes before encapsulation.";
    SHARD_SELECTIONS = Counter "shard_selections_total" ["result"] THINGS,
        "How packets of groups were placed; one whose pin was stale also counts as maglev.";
    POOL_MEMBERS = Gauge "pool_members" ["class", "state"] THINGS,
        "Shards of the class as this node sees them; an ineligible one cannot translate it.";
    POOL_MIN_ACTIVE = Gauge "pool_min_active" [] THINGS,
        "Active members that each pool should have at least, as configured; nothing but alerts depends on it.";
    POOL_ENABLED = Gauge "pool_enabled" ["class"] THINGS,
        "1 while the class's group takes new routes.";
    MODE = Gauge "mode" ["mode"] THINGS,
        "1 for the configured mode.";
    SHARD_WATCH_SYNCED = Gauge "shard_watch_synced" [] THINGS,
        "1 while a complete list of shards is held and its source is not failing.";
    GROUP_ROUTES = Gauge "group_routes" ["class"] THINGS,
        "Routes that name the class's group, by the last complete look; 0 is only told when it is proven.";
    SWEEP_ERRORS = Counter "sweep_errors_total" ["stage"] THINGS,
        "Sweeps that failed, by where.";
    LAST_SUCCESSFUL_SWEEP = Gauge "last_successful_sweep_timestamp_seconds" [] SECONDS,
        "When a sweep last ended without an error; 0 before the first.";
    SWEEP_INTERVAL = Gauge "sweep_interval_seconds" [] SECONDS,
        "The longest time between two sweeps, as configured.";
    SWEEPS = Counter "sweeps_total" ["trigger"] THINGS,
        "Sweeps, by what asked for them.";
    SWEEP_DURATION = Histogram "sweep_duration_seconds" [] SECONDS,
        "How long sweeps took, from looking to the last step.";
    KICKS = Counter "kicks_total" ["source"] THINGS,
        "Events that asked for a sweep; many may lead to one.";
    CLASS_CONFIGURED = Gauge "class_configured" ["class"] THINGS,
        "1 for a class of the configuration that every tenant has a route for.";
    CLASS_SERVED = Gauge "class_served" ["class"] THINGS,
        "1 while the class's group forwards and has an active member.";
    GROUP_INFO = Gauge "group_info" ["class", "group", "incarnation"] THINGS,
        "1 for the group that the class has, and its tenure of it.";
    TABLE_INFO = Gauge "table_info" ["class", "digest"] THINGS,
        "1 for the table of the class's group; equal digests are equal tables, on whatever nodes.";
    TABLE_IMBALANCE = Gauge "table_imbalance_ratio" ["class"] RATIO,
        "The largest share of the table in relation to the mean, or to what the shard's weight says.";
    DROPS = Counter "drops_total" ["reason"] THINGS,
        "Packets that were dropped, by why.";
    SKIPS = Counter "skips_total" ["reason"] THINGS,
        "Packets that were left to the next program, by why.";
    PACKETS = Counter "packets_total" ["outcome"] THINGS,
        "Packets that went as their route says, or were answered.";
    PINS = Gauge "pins" ["kind"] THINGS,
        "Pins that there are.";
    PINS_CAPACITY = Gauge "pins_capacity" ["kind"] THINGS,
        "Pins that there is room for.";
    PIN_OPERATIONS = Counter "pin_operations_total" ["result"] THINGS,
        "What was done with pins; torn: what was found was another's.";
    PIN_REFUSED = Counter "pin_refused_total" ["cause"] THINGS,
        "Packets that were forwarded without the pin that they should have got.";
    PINS_AT_RISK = Gauge "pins_at_risk" ["class"] THINGS,
        "Pins in use whose shard is not what the table says: what would move if this node's pins vanished now.";
    TENANTS_AT_QUOTA = Gauge "tenants_at_quota" [] THINGS,
        "Tenants that have as many pins as they may have.";
    PUBLICATIONS = Counter "publications_total" ["result"] THINGS,
        "Plans of groups, by what became of them.";
    PUBLICATION_DURATION = Histogram "publication_duration_seconds" [] SECONDS,
        "How long publications took, until no packet used the old snapshot.";
    LAST_PUBLISH_MOVED = Gauge "last_publish_moved_slots_ratio" ["class"] RATIO,
        "The part of the table that the last publication moved to other shards.";
    RESOLUTION_FAILURES = Counter "resolution_failures_total" ["reason"] THINGS,
        "Shards that could not be reached when the kernel was asked.";
    NETLINK_OVERRUNS = Counter "netlink_overruns_total" [] THINGS,
        "Times that the kernel had more to tell of the network than there was room for.";
    NETLINK_RESYNCS = Counter "netlink_resyncs_total" [] THINGS,
        "Times that the view of the network was read anew.";
    SOURCE_ERRORS = Counter "source_errors_total" ["source", "reason"] THINGS,
        "What went wrong with the list of shards.";
    BARRIER_WAIT = Histogram "barrier_wait_seconds" ["side"] SECONDS,
        "How long the barrier between writers of routes and who retires a group was waited for.";
    BARRIER_TIMEOUTS = Counter "barrier_timeouts_total" ["side"] THINGS,
        "Times that the barrier was waited for in vain.";
    ROUTES_REPAIRED = Counter "routes_repaired_total" ["kind"] THINGS,
        "Routes that were put right, by what was wrong with them.";
    EVENTS_LOST = Counter "events_lost_total" ["kind"] THINGS,
        "Events that the ring had no room for; the program counts those of all kinds together.";
    EVENTS_SUPPRESSED = Counter "events_suppressed_total" ["kind"] THINGS,
        "Events that the rate limit swallowed; the program counts those of all kinds together.";
    BUILD_INFO = Gauge "build_info" ["version", "abi", "clang", "tcx", "batch"] THINGS,
        "1 for the version of the program, of the layout of the kernel's maps, of the compiler of the kernel's programs, and for what this kernel has: links on TCX, operations in batches.";
}
