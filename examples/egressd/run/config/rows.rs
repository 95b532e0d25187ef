// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Everything that can be set: one row each.

/// The beginning of all variables.
pub(crate) const PREFIX: &str = "GUIDEWAY_EGRESS_";
/// The variable that names the configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "GUIDEWAY_EGRESS_CONFIG";

/// Something that can be set.
#[derive(Debug)]
pub(crate) struct Row {
    /// The flag without its dashes; the file's field has `_` for each `-`.
    pub(crate) flag: &'static str,
    /// The variable.
    pub(crate) variable: &'static str,
    /// What it is where nothing is said; none if it must be said.
    pub(crate) default: Option<&'static str>,
    /// What a value may be.
    pub(crate) accepted: &'static str,
    /// What it is for.
    pub(crate) help: &'static str,
    /// What it is in JSON.
    pub(crate) kind: Kind,
}

/// What a value is in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Bool,
    List,
}

impl Row {
    /// Its name in the configuration file.
    pub(crate) fn field(&self) -> String {
        self.flag.replace('-', "_")
    }
}

macro_rules! rows {
    ($($name:ident: $kind:ident $flag:literal $variable:literal $default:expr, $accepted:literal, $help:literal;)+) => {
        $(pub(crate) const $name: Row = Row {
            flag: $flag,
            variable: concat!("GUIDEWAY_EGRESS_", $variable),
            default: $default,
            accepted: $accepted,
            help: $help,
            kind: Kind::$kind,
        };)+

        /// All of them, in the order of messages.
        pub(crate) static ROWS: &[&Row] = &[$(&$name),+];
    };
}

rows! {
    MODE: Text "mode" "MODE" Some("ordered"),
        "ordered or hashed",
        "Whether packets go to the first shard of --shard-sids that is reached, or are spread over groups";
    HASH: Text "hash" "HASH" Some("source"),
        "source or flow",
        "What of a packet decides its shard";
    PIN_IDLE: Text "pin-idle" "PIN_IDLE" Some("2h4m"),
        "a duration of whole seconds from 1s to 30days, or 0 for no pins",
        "How long a pin outlives its last packet";
    POOL_MIN_ACTIVE: Number "pool-min-active" "POOL_MIN_ACTIVE" Some("1"),
        "a number from 0 to --members",
        "Active shards of a class below which alerts are raised; forwarding does not depend on it";
    NAT64_PREFIXES: List "nat64-prefixes" "NAT64_PREFIXES" Some(""),
        "IPv6 prefixes of 96 bits separated by commas, fewer than --groups, each with =N (1 to 255) \
         for its hash ID or without",
        "The prefixes of NAT64 classes beside NAT66";
    SHARD_SIDS: List "shard-sids" "SHARD_SIDS" Some(""),
        "SIDs of shards separated by commas, each once",
        "Shards of ordered mode, the preferred ones first; in hashed mode they are kept for the way back";
    SOURCE: Text "source" "SOURCE" Some("dir:/etc/guideway/shards"),
        "file:PATH, dir:PATH or kube:NAMESPACE",
        "Where the list of shards comes from";
    UPLINKS: List "uplinks" "UPLINKS" None,
        "names of interfaces separated by commas, each once",
        "The interfaces that lead to shards";
    NODE_SID: Text "node-sid" "NODE_SID" None,
        "the SID of this node, without Argument and slot",
        "The source of encapsulated packets, to which replies come";
    ENCAP: Text "encap" "ENCAP" Some("standard"),
        "standard, compat, or a comma list of dscp=zero|copy|0..63, ecn=compatibility|normal and \
         label=on|off, in which what is not said is as in standard",
        "How the outer header is filled in";
    UNSERVED: Text "unserved" "UNSERVED" Some("drop"),
        "drop or reject",
        "Whether packets that no shard takes are dropped silently or answered";
    INSTALL_POLICY: Text "install-policy" "INSTALL_POLICY" Some("allow-empty"),
        "allow-empty, ordered or require-active",
        "What attach does for a class of hashed mode that has a group without an active shard: \
         allow-empty leads to the group, whose packets are dropped until a shard is active; ordered \
         to the first of --shard-sids that is reached, until then, or to the group if none is; \
         require-active refuses the tenant if the group has shards at all";
    SWEEP: Text "sweep" "SWEEP" Some("30s"),
        "a duration from 5s to 10min",
        "Time between sweeps where nothing asks for one";
    DEBOUNCE: Text "debounce" "DEBOUNCE" Some("250ms"),
        "a duration from 0 to 5s",
        "How long events are gathered before a sweep";
    DOWN_HOLD: Text "down-hold" "DOWN_HOLD" Some("1s"),
        "a duration from 0 to 60s",
        "How long a neighbour must be lost before its shard counts as unreachable";
    LIVENESS_BEFORE_SYNC: Bool "liveness-before-sync" "LIVENESS_BEFORE_SYNC" Some("false"),
        "true or false",
        "Whether published shards follow their reachability before the first list of shards";
    STATE_DIR: Text "state-dir" "STATE_DIR" Some("/sys/fs/bpf/guideway/egress"),
        "an absolute path on a bpffs, whose components have no dot",
        "Where the state is kept";
    GROUPS: Number "groups" "LIMIT_GROUPS" Some("8"),
        "a number from 1 to 64",
        "Room for groups, in a new state";
    MEMBERS: Number "members" "LIMIT_MEMBERS" Some("64"),
        "a number from 1 to 256",
        "Room for shards in a group, in a new state";
    TABLE_SIZE: Number "table-size" "LIMIT_TABLE_SIZE" Some("1021"),
        "a prime up to 65537",
        "Slots of a group's table, in a new state";
    PINS: Number "pins" "LIMIT_PINS" Some("65536"),
        "a number from 1 to 4194304",
        "Room for pins, in a new state";
    METRICS: Text "metrics" "METRICS" Some("127.0.0.1:9477"),
        "an address and port, or off",
        "Where metrics and health are served";
}
