// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The state directory: where an instance's kernel objects live on a bpffs.
//!
//! ```text
//! /sys/fs/bpf/guideway/quiclb/<instance id>/maps/     the maps of the program
//!                                          progs/    the running program and the one before
//!                                          links/    the attachment
//!                                          gen/      generations and their records
//! /sys/fs/bpf/guideway/egress/               the same four: attachments, snapshots of groups and
//!                                            the configuration; the write barrier; and what the
//!                                            publisher locks as long as it runs
//! ```
//!
//! The directory appears whole: a [`Draft`] is filled under another name and renamed. One
//! exclusive lock on the directory itself stands for the right to change what is in it; it ends
//! with the process that holds it. Nothing is opened before the version in the meta map was found
//! to be one this library understands.

mod lock;
mod successor;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::mount::{mount, MsFlags};
use nix::sys::statfs::{statfs, BPF_FS_MAGIC};

use super::map::{Map, MapKind, MapShape, OpenError};
use super::SysError;
use crate::abi;
use crate::error::ErrorKind;
use crate::id::InstanceId;

pub use lock::{Draft, PublisherLock, StateDirLock};

/// Where a bpffs is mounted by convention.
pub const DEFAULT_ROOT: &str = "/sys/fs/bpf";

/// Name of the map that says what the other maps of a load balancer mean.
pub const META_MAP: &str = "gw_ql_meta";
/// Name of the map that says what the other maps of the egress datapath mean.
pub const EGRESS_META_MAP: &str = "gw_eg_meta";

/// One directory in a state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// The maps of the program.
    Maps,
    /// Programs.
    Programs,
    /// Links.
    Links,
    /// Generations and their records.
    Generations,
}

impl Section {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Maps, Self::Programs, Self::Links, Self::Generations];

    const fn name(self) -> &'static str {
        match self {
            Self::Maps => "maps",
            Self::Programs => "progs",
            Self::Links => "links",
            Self::Generations => "gen",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a state directory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The root is no bpffs.
    #[error(
        "{path} is not a bpffs; mount one: mount -t bpf bpf {path} (where \"ip netns exec\" has \
         hidden it, enter the network namespace by \"nsenter --net=\" instead)"
    )]
    #[non_exhaustive]
    NotBpffs {
        /// The root.
        path: String,
    },
    /// There is no such instance.
    #[error("there is no instance {instance} in {parent}{}", existing(instances))]
    #[non_exhaustive]
    NoInstance {
        /// The one that was asked for.
        instance: String,
        /// Where it was looked for.
        parent: String,
        /// Those that exist.
        instances: Vec<InstanceId>,
    },
    /// The instance exists already.
    #[error("instance {instance} exists already")]
    #[non_exhaustive]
    Exists {
        /// The instance.
        instance: String,
    },
    /// Another process changes the instance at this moment.
    #[error("{path} is locked by another process")]
    #[non_exhaustive]
    Locked {
        /// The directory.
        path: String,
    },
    /// Another process is the node's publisher.
    #[error("{path} has a publisher: {holder}")]
    #[non_exhaustive]
    Publisher {
        /// The directory.
        path: String,
        /// Who, as far as it can be seen.
        holder: String,
    },
    /// The state was written by another version.
    #[error("{path} has state of ABI {found}, this library understands {supported}; nothing was touched")]
    #[non_exhaustive]
    Version {
        /// The meta map.
        path: String,
        /// Its version.
        found: AbiVersion,
        /// The version of this library.
        supported: AbiVersion,
    },
    /// The state does not make sense.
    #[error("{path} is not the state of this instance: {reason}")]
    #[non_exhaustive]
    Corrupt {
        /// The object at fault.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A pinned object cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The instance is attached to an interface.
    #[error("{path} is not empty; detach the instance before its state is removed")]
    #[non_exhaustive]
    Attached {
        /// The directory of links.
        path: String,
    },
    /// The process may not look at the state.
    #[error(
        "cannot look into {path}: missing rights: root, or CAP_BPF and CAP_NET_ADMIN with access \
         to the bpffs"
    )]
    #[non_exhaustive]
    Permission {
        /// What it may not look at.
        path: String,
    },
    /// A call failed.
    #[error(transparent)]
    Sys(SysError),
}

impl From<SysError> for StateError {
    fn from(error: SysError) -> Self {
        match error.kind() {
            ErrorKind::Permission => Self::Permission { path: error.object },
            _ => Self::Sys(error),
        }
    }
}

fn existing(instances: &[InstanceId]) -> String {
    if instances.is_empty() {
        return String::new();
    }
    let names: Vec<String> = instances.iter().map(ToString::to_string).collect();
    format!("; there are {}", names.join(", "))
}

impl StateError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotBpffs { .. } => ErrorKind::Preflight,
            Self::NoInstance { .. } => ErrorKind::NotFound,
            Self::Exists { .. } | Self::Attached { .. } => ErrorKind::Conflict,
            Self::Locked { .. } | Self::Publisher { .. } => ErrorKind::Locked,
            Self::Version { .. } | Self::Corrupt { .. } => ErrorKind::Incompatible,
            Self::Open(error) => error.kind(),
            Self::Permission { .. } => ErrorKind::Permission,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// Version of the layout and meaning of an instance's maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbiVersion {
    /// Differs where old and new cannot work on each other's maps.
    pub major: u16,
    /// Rises with additions that the older ones may ignore.
    pub minor: u16,
}

impl AbiVersion {
    /// The version of this library's load balancers.
    pub const QUICLB: Self = Self {
        major: abi::Abi::GW_ABI_MAJOR.0 as u16,
        minor: abi::Abi::GW_ABI_MINOR.0 as u16,
    };
    /// The version of this library's egress datapath.
    pub const EGRESS: Self = Self {
        major: abi::Abi::GW_ABI_EGRESS_MAJOR.0 as u16,
        minor: abi::Abi::GW_ABI_EGRESS_MINOR.0 as u16,
    };
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The mount point under which state is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRoot {
    path: PathBuf,
}

impl Default for StateRoot {
    fn default() -> Self {
        Self::new(DEFAULT_ROOT)
    }
}

impl StateRoot {
    /// State under `path`, which must be a directory on a bpffs when it is used.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that the root is on a bpffs.
    pub fn check(&self) -> Result<(), StateError> {
        let info = statfs(&self.path)
            .map_err(|errno| SysError::from_nix("look at", self.path.display(), errno))?;
        if info.filesystem_type() != BPF_FS_MAGIC {
            return Err(StateError::NotBpffs {
                path: self.path.display().to_string(),
            });
        }
        Ok(())
    }

    /// Mounts a bpffs there, which takes CAP_SYS_ADMIN. A root that is on one already is left as
    /// it is.
    pub fn mount(&self) -> Result<(), StateError> {
        match self.check() {
            Err(StateError::NotBpffs { .. }) => {}
            result => return result,
        }
        mount(
            Some("bpf"),
            &self.path,
            Some("bpf"),
            MsFlags::empty(),
            Some("mode=0700"),
        )
        .map_err(|errno| SysError::from_nix("mount a bpffs on", self.path.display(), errno))?;
        Ok(())
    }

    /// The state directory of an instance of the load balancer, whether it exists or not.
    pub fn quiclb(&self, instance: InstanceId) -> StateDir {
        self.of(self.quiclb_parent(), Owner::QuicLb(instance))
    }

    /// The state directory of the egress datapath, of which there is one below a root, whether it
    /// exists or not.
    pub fn egress(&self) -> StateDir {
        self.of(self.path.join("guideway"), Owner::Egress)
    }

    fn of(&self, parent: PathBuf, owner: Owner) -> StateDir {
        StateDir {
            root: self.clone(),
            path: parent.join(owner.to_string()),
            parent,
            owner,
        }
    }

    /// The instances of the load balancer, in order.
    pub fn quiclb_instances(&self) -> Result<Vec<InstanceId>, StateError> {
        self.check()?;
        instances_in(&self.quiclb_parent())
    }

    fn quiclb_parent(&self) -> PathBuf {
        self.path.join("guideway").join("quiclb")
    }
}

fn instances_in(parent: &Path) -> Result<Vec<InstanceId>, StateError> {
    let mut instances: Vec<InstanceId> = names_in(parent)?
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    instances.sort_unstable();
    Ok(instances)
}

/// Names in a directory, sorted; none if it does not exist.
fn names_in(path: &Path) -> Result<Vec<String>, SysError> {
    let error = |e: &io::Error| SysError::from_io("list", path.display(), e);
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(error(&e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|e| error(&e))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// What a state directory belongs to. The text is the directory's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    QuicLb(InstanceId),
    Egress,
}

impl Owner {
    /// Name and magic number of the map that tells the version.
    const fn meta(self) -> (&'static str, u32) {
        match self {
            Self::QuicLb(_) => (META_MAP, abi::Abi::GW_ABI_MAGIC.0),
            Self::Egress => (EGRESS_META_MAP, abi::Abi::GW_ABI_EGRESS_MAGIC.0),
        }
    }

    /// The version that this library makes.
    const fn version(self) -> AbiVersion {
        match self {
            Self::QuicLb(_) => AbiVersion::QUICLB,
            Self::Egress => AbiVersion::EGRESS,
        }
    }

    const fn instance(self) -> InstanceId {
        match self {
            Self::QuicLb(instance) => instance,
            Self::Egress => InstanceId::from_bytes([0; 16]),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuicLb(instance) => instance.fmt(f),
            Self::Egress => f.write_str("egress"),
        }
    }
}

/// Where the objects of one instance are. Reading needs no lock; changing takes [`Self::lock`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: StateRoot,
    parent: PathBuf,
    path: PathBuf,
    owner: Owner,
}

impl StateDir {
    /// The state directory of the egress datapath at a path of the caller's choice, whether it
    /// exists or not. The nearest directory above it that exists must be on a bpffs when it is used.
    #[must_use]
    pub fn egress_at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let parent = path.parent().unwrap_or(&path).to_path_buf();
        let root = parent.ancestors().find(|above| above.is_dir());
        Self {
            root: StateRoot::new(root.unwrap_or(Path::new("/"))),
            parent,
            path,
            owner: Owner::Egress,
        }
    }

    /// The instance; for the egress datapath, the ID of zeros.
    pub fn instance(&self) -> InstanceId {
        self.owner.instance()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where an object of this name is pinned. A bpffs refuses names with a dot.
    pub fn pin(&self, section: Section, name: &str) -> PathBuf {
        self.path.join(section.name()).join(name)
    }

    /// Opens a pinned map if it has the shape that `shapes` has for maps of that name.
    pub(crate) fn map(
        &self,
        shapes: &BTreeMap<String, MapShape>,
        name: &str,
    ) -> Result<Map, OpenError> {
        let path = self.pin(Section::Maps, name);
        match shapes.get(name) {
            Some(shape) => Map::open(&path, shape),
            // Every name is a map of the object; a build without it fails its first test.
            None => Map::open_any(&path),
        }
    }

    /// Names of the pinned objects of a section, sorted.
    pub fn pins(&self, section: Section) -> Result<Vec<String>, SysError> {
        names_in(&self.path.join(section.name()))
    }

    /// Whether the instance exists.
    ///
    /// # Errors
    /// The root is no bpffs, or the process may not look.
    pub fn exists(&self) -> Result<bool, StateError> {
        self.root.check()?;
        match self.path.symlink_metadata() {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(SysError::from_io("look at", self.path.display(), &e).into()),
        }
    }

    fn no_instance(&self) -> StateError {
        StateError::NoInstance {
            instance: self.owner.to_string(),
            parent: self.parent.display().to_string(),
            instances: instances_in(&self.parent).unwrap_or_default(),
        }
    }

    /// The version of the state. An older minor version is fine, everything else than that and
    /// the current one is an error.
    pub fn version(&self) -> Result<AbiVersion, StateError> {
        if !self.exists()? {
            return Err(self.no_instance());
        }
        let (name, expected_magic) = self.owner.meta();
        let path = self.pin(Section::Maps, name);
        let map = Map::open_any(&path)?;
        let corrupt = |reason: String| StateError::Corrupt {
            path: path.display().to_string(),
            reason,
        };
        let shape = map.shape();
        // Another version may have a longer value, but the first words never change.
        if shape.kind != MapKind::ARRAY || shape.key_size != 4 || shape.value_size < 8 {
            return Err(corrupt(format!(
                "it is a {} with another layout",
                shape.kind
            )));
        }
        let mut value = vec![0; map.value_bytes()];
        map.lookup(&0_u32.to_ne_bytes(), &mut value)?;
        let half = |at: usize| u16::from_ne_bytes([value[at], value[at + 1]]);
        let magic = u32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
        if magic != expected_magic {
            return Err(corrupt(format!("it begins with {magic:#010x}")));
        }
        let found = AbiVersion {
            major: half(4),
            minor: half(6),
        };
        let supported = self.owner.version();
        if found.major != supported.major || found.minor > supported.minor {
            let path = path.display().to_string();
            return Err(StateError::Version {
                path,
                found,
                supported,
            });
        }
        let instance = value
            .get(8..24)
            .and_then(|id| <[u8; 16]>::try_from(id).ok());
        let Some(instance) = instance.map(InstanceId::from_bytes) else {
            return Err(corrupt(format!("a value has {} bytes", value.len())));
        };
        if instance != self.instance() {
            return Err(corrupt(format!("it belongs to instance {instance}")));
        }
        Ok(found)
    }
}
