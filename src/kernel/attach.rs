// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The XDP hook of an interface: attaching without displacing, detaching only what is ours.
//!
//! A program is attached through a link where the kernel has XDP links: while a link holds the
//! hook, the kernel refuses everybody else, and only a descriptor or pin of the link lets go of
//! it. Otherwise netlink is used with the flags that make it refuse an occupied hook.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::libc;

use super::prog_array::ProgArrayError;
use super::program::{self, Program};
use super::sys::object::{self, ObjectType, PinError};
use super::sys::{link, xdp};
use super::{probe, SysError};
use crate::error::{ErrorKind, NOT_OURS};

/// Where in the receive path a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the network stack, for drivers without XDP; slow.
    Generic,
    /// On the device.
    Hardware,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Native, Self::Generic, Self::Hardware];

    fn flag(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
            Self::Hardware => libbpf_sys::XDP_FLAGS_HW_MODE,
        }
    }

    fn program_id(self, hook: &xdp::Hook) -> u32 {
        match self {
            Self::Native => hook.native,
            Self::Generic => hook.generic,
            Self::Hardware => hook.hardware,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Hardware => "hardware",
        })
    }
}

/// A program on the XDP hook of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupant {
    /// Where it runs.
    pub mode: Mode,
    /// The kernel's number of the program.
    pub program_id: u32,
    /// Its name; `None` without CAP_SYS_ADMIN.
    pub name: Option<String>,
    /// The link that holds it; `None` without CAP_SYS_ADMIN, or if netlink attached it.
    pub link_id: Option<u32>,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}", self.program_id)?;
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        write!(f, " in {} mode", self.mode)?;
        match self.link_id {
            Some(id) => write!(f, " through link {id}"),
            None => Ok(()),
        }
    }
}

/// Why an attachment was not made, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No such interface in the calling thread's network namespace.
    #[error("there is no interface {interface} here")]
    #[non_exhaustive]
    NoInterface {
        /// Its name, or its index in words.
        interface: String,
    },
    /// Somebody else's program holds the hook.
    #[error(
        "interface {interface} (index {ifindex}) is held by {}",
        occupant_text(occupant)
    )]
    #[non_exhaustive]
    Occupied {
        /// Name of the interface.
        interface: String,
        /// Its index.
        ifindex: u32,
        /// The program; `None` if it was gone again when asked for.
        occupant: Option<Occupant>,
    },
    /// The program is attached already, elsewhere or otherwise than asked for. Nothing was changed.
    #[error("{attached}; detach it before it is attached to {interface} in {mode} mode")]
    #[non_exhaustive]
    Attached {
        /// What is attached where, as a sentence.
        attached: String,
        /// The interface that was asked for.
        interface: String,
        /// The mode that was asked for.
        mode: Mode,
    },
    /// The program runs elsewhere already. Nothing was changed.
    #[error("{attached}; detach it before it is put at {wanted}")]
    #[non_exhaustive]
    Elsewhere {
        /// Where it runs, as a sentence.
        attached: String,
        /// The place that was asked for.
        wanted: String,
    },
    /// The root array of the interface's owner refuses the program, or is none.
    #[error(transparent)]
    RootArray(#[from] ProgArrayError),
    /// The driver has no XDP in this mode.
    #[error("interface {interface} has no XDP in {mode} mode{}{detail}", if detail.is_empty() { "" } else { ": " })]
    #[non_exhaustive]
    Unsupported {
        /// Name of the interface.
        interface: String,
        /// The mode that was asked for.
        mode: Mode,
        /// What the driver said.
        detail: String,
    },
    /// The process lacks rights that attaching takes.
    #[error("cannot attach to interface {interface}: missing right: CAP_NET_ADMIN")]
    #[non_exhaustive]
    Permission {
        /// Name of the interface.
        interface: String,
    },
    /// The pin holds something that is no attachment.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The pinned link is not one on an XDP hook.
    #[error("{path} is a link, but not on an XDP hook")]
    #[non_exhaustive]
    NotXdp {
        /// Where it is pinned.
        path: String,
    },
    /// The kernel says it detached the program, and the program is still there.
    #[error("interface {interface} still runs {occupant} after it was detached")]
    #[non_exhaustive]
    StillAttached {
        /// Name of the interface.
        interface: String,
        /// The program.
        occupant: Occupant,
    },
    /// The kernel refused for another reason.
    #[error(transparent)]
    Sys(#[from] SysError),
}

pub(crate) fn occupant_text(occupant: &Option<Occupant>) -> String {
    occupant.as_ref().map_or_else(
        || "a program that is gone again".to_owned(),
        Occupant::to_string,
    )
}

impl AttachError {
    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        (self.kind() == ErrorKind::Incompatible).then_some(NOT_OURS)
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoInterface { .. } => ErrorKind::NotFound,
            Self::Occupied { .. } => ErrorKind::Occupied,
            Self::Attached { .. } | Self::Elsewhere { .. } => ErrorKind::Conflict,
            Self::RootArray(error) => error.kind(),
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Permission { .. } => ErrorKind::Permission,
            Self::Pin(error) => error.kind(),
            Self::NotXdp { .. } => ErrorKind::Incompatible,
            Self::StillAttached { .. } => ErrorKind::Partial,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// Everything on the XDP hook of an interface.
pub fn occupants(ifindex: u32) -> Result<Vec<Occupant>, AttachError> {
    let hook = hook(ifindex)?;
    let in_mode = |mode: Mode| match mode.program_id(&hook) {
        0 => None,
        program_id => Some(Occupant {
            mode,
            program_id,
            name: program::name_by_id(program_id),
            link_id: link::find_xdp(ifindex, program_id).map(|(id, _)| id),
        }),
    };
    Ok(Mode::ALL.into_iter().filter_map(in_mode).collect())
}

fn hook(ifindex: u32) -> Result<xdp::Hook, AttachError> {
    // For an index that does not exist some kernels report an empty hook.
    if interface_name(ifindex).is_none() {
        return Err(no_interface(ifindex));
    }
    xdp::query(ifindex).map_err(|error| match error.errno {
        libc::ENODEV => no_interface(ifindex),
        _ => AttachError::Sys(error),
    })
}

fn no_interface(ifindex: u32) -> AttachError {
    AttachError::NoInterface {
        interface: display_name(ifindex),
    }
}

/// The index of the interface of this name in the calling thread's network namespace.
pub fn interface_index(name: &str) -> Result<u32, AttachError> {
    nix::net::if_::if_nametoindex(name).map_err(|_| AttachError::NoInterface {
        interface: name.to_owned(),
    })
}

pub(crate) fn interface_name(ifindex: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(ifindex).ok()?;
    // nix 0.31 takes the null pointer of a failure for success.
    Some(name.to_string_lossy().into_owned()).filter(|name| !name.is_empty())
}

/// Name of the interface with this index in the calling thread's network namespace, or its index
/// in words.
pub(crate) fn display_name(ifindex: u32) -> String {
    interface_name(ifindex).unwrap_or_else(|| format!("with index {ifindex}"))
}

/// Something that keeps a program on a hook.
#[derive(Debug)]
#[must_use = "a link that is not pinned detaches when it is dropped"]
pub enum Attachment {
    /// A link.
    Link(XdpLink),
    /// A program that netlink attached; it stays until it is detached.
    Netlink(NetlinkAttachment),
}

impl Attachment {
    /// Attaches `program` to an interface of the calling thread's network namespace, unless
    /// anything is attached there already, in whatever mode.
    pub fn new(program: &Program, ifindex: u32, mode: Mode) -> Result<Self, AttachError> {
        if occupants(ifindex)?.into_iter().next().is_some() {
            return Err(occupied(ifindex));
        }
        // A kernel without XDP links answers EINVAL, as it does to other faults.
        let result = match link::create_xdp(program.as_fd(), ifindex, mode.flag()) {
            Ok(fd) => return Ok(Self::Link(XdpLink { fd })),
            Err(error) if error.errno == libc::EINVAL && probe::xdp_link() == Some(false) => {
                return NetlinkAttachment::create(program, ifindex, mode).map(Self::Netlink);
            }
            Err(error) => error,
        };
        Err(explain(result, ifindex, mode))
    }
}

/// The error of a refused attachment in terms of its cause.
fn explain(error: SysError, ifindex: u32, mode: Mode) -> AttachError {
    let interface = display_name(ifindex);
    match error.errno {
        // Somebody was faster than this process after it had looked.
        libc::EBUSY | libc::EEXIST => occupied(ifindex),
        libc::ENODEV => no_interface(ifindex),
        libc::EINVAL if interface_name(ifindex).is_none() => no_interface(ifindex),
        libc::EOPNOTSUPP => AttachError::Unsupported {
            interface,
            mode,
            detail: error.detail,
        },
        libc::EPERM => AttachError::Permission { interface },
        _ => AttachError::Sys(error),
    }
}

fn occupied(ifindex: u32) -> AttachError {
    let occupant = occupants(ifindex).unwrap_or_default().into_iter().next();
    AttachError::Occupied {
        interface: display_name(ifindex),
        ifindex,
        occupant,
    }
}

/// A link on an XDP hook. Making one takes no right beyond a descriptor of the program.
#[derive(Debug)]
pub struct XdpLink {
    fd: OwnedFd,
}

/// What the kernel says about a link now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkState {
    /// The kernel's number of the link.
    pub id: u32,
    /// The kernel's number of its program.
    pub program_id: u32,
    /// Index of its interface; `None` once the interface is gone or the link was detached.
    pub ifindex: Option<u32>,
}

impl XdpLink {
    /// Opens the link pinned at `path`.
    pub fn open(path: &Path) -> Result<Self, AttachError> {
        let fd = object::open_as(path, ObjectType::Link)?;
        if link::info(fd.as_fd())?.xdp_ifindex.is_none() {
            return Err(AttachError::NotXdp {
                path: path.display().to_string(),
            });
        }
        Ok(Self { fd })
    }

    /// The link through which `program` is attached to an interface, pinned or not. Looking for it
    /// needs CAP_SYS_ADMIN; without there is none.
    pub fn find(program: &Program, ifindex: u32) -> Option<Self> {
        let (_, fd) = link::find_xdp(ifindex, program.id())?;
        Some(Self { fd })
    }

    /// Pins the link, so that it outlives this process; an existing name is refused (EEXIST).
    pub fn pin(&self, path: &Path) -> Result<(), SysError> {
        object::pin(self.as_fd(), path)
    }

    /// What the kernel says about it now.
    pub fn state(&self) -> Result<LinkState, SysError> {
        let info = link::info(self.as_fd())?;
        let ifindex = info.xdp_ifindex.filter(|&ifindex| ifindex != 0);
        Ok(LinkState {
            id: info.id,
            program_id: info.program_id,
            ifindex,
        })
    }

    /// Exchanges the program in one step, without a packet lost in between, if `expected` is the
    /// one that runs now; another one is EPERM.
    pub fn update(&self, program: &Program, expected: &Program) -> Result<(), SysError> {
        link::update(self.as_fd(), program.as_fd(), Some(expected.as_fd()))
    }

    /// Exchanges the program as [`update`](Self::update) does, whichever runs now: for who holds
    /// the link and has lost the program.
    pub fn replace(&self, program: &Program) -> Result<(), SysError> {
        link::update(self.as_fd(), program.as_fd(), None)
    }

    /// Takes the program off the interface and makes sure that it is gone. A pin of the link, if
    /// any, stays and must be removed. Nothing happens if the interface is gone.
    pub fn detach(&self) -> Result<(), AttachError> {
        let before = self.state()?;
        let Some(ifindex) = before.ifindex else {
            return Ok(());
        };
        link::detach(self.as_fd())?;
        if self.state()?.ifindex.is_none() {
            return Ok(());
        }
        match occupants(ifindex)?
            .into_iter()
            .find(|o| o.program_id == before.program_id)
        {
            Some(occupant) => {
                let interface = display_name(ifindex);
                Err(AttachError::StillAttached {
                    interface,
                    occupant,
                })
            }
            None => Ok(()),
        }
    }
}

impl AsFd for XdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A program on a hook without a link, which takes CAP_NET_ADMIN. It is recognised by its id, so a descriptor or pin of the
/// program is the proof of ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetlinkAttachment {
    ifindex: u32,
}

impl NetlinkAttachment {
    /// Attaches `program` where nothing is attached.
    pub fn create(program: &Program, ifindex: u32, mode: Mode) -> Result<Self, AttachError> {
        if occupants(ifindex)?.into_iter().next().is_some() {
            return Err(occupied(ifindex));
        }
        match xdp::attach(ifindex, program.as_fd(), mode.flag()) {
            Ok(()) => Ok(Self { ifindex }),
            Err(error) => Err(explain(error, ifindex, mode)),
        }
    }

    /// The attachment of `program` to an interface if it is there.
    pub fn find(program: &Program, ifindex: u32) -> Result<Option<Self>, AttachError> {
        Ok(mode_of(program.id(), ifindex)?.map(|_| Self { ifindex }))
    }

    /// Index of the interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Exchanges `expected` for `program` in one step.
    pub fn update(&self, program: &Program, expected: &Program) -> Result<(), AttachError> {
        let Some(mode) = mode_of(expected.id(), self.ifindex)? else {
            return Err(self.not_ours());
        };
        match xdp::replace(self.ifindex, program.as_fd(), expected.as_fd(), mode.flag()) {
            Err(error) if error.errno == libc::EEXIST => Err(self.not_ours()),
            result => Ok(result.map_err(by_link)?),
        }
    }

    /// Takes `program` off the interface if it is there, and makes sure that it is gone; somebody
    /// else's program is left alone and named in the error. Whether it was there.
    pub fn detach(&self, program: &Program) -> Result<bool, AttachError> {
        let Some(mode) = mode_of(program.id(), self.ifindex)? else {
            return match occupants(self.ifindex)?.is_empty() {
                true => Ok(false),
                false => Err(self.not_ours()),
            };
        };
        self.detach_in(mode, program)?;
        Ok(true)
    }

    /// Takes `program` off in one mode, and looks what is there afterwards whatever the kernel
    /// answered: a refusal does not tell another's program from ours in another mode.
    fn detach_in(&self, mode: Mode, program: &Program) -> Result<(), AttachError> {
        let refused = match xdp::detach(self.ifindex, program.as_fd(), mode.flag()) {
            Err(error) if error.errno == libc::EEXIST => true,
            result => {
                result.map_err(by_link)?;
                false
            }
        };
        let left = occupants(self.ifindex)?;
        let ours = left
            .iter()
            .find(|occupant| occupant.program_id == program.id());
        match ours {
            Some(occupant) => Err(AttachError::StillAttached {
                interface: display_name(self.ifindex),
                occupant: occupant.clone(),
            }),
            None if refused && !left.is_empty() => Err(self.not_ours()),
            None => Ok(()),
        }
    }

    fn not_ours(&self) -> AttachError {
        occupied(self.ifindex)
    }
}

/// Netlink tells no program that a link holds from one that none does, but changes only the other; to find
/// a link that is pinned nowhere takes a right.
fn by_link(mut error: SysError) -> SysError {
    let needed = [probe::Capability::SysAdmin];
    if error.errno != libc::EBUSY || probe::missing(&needed).is_empty() {
        return error;
    }
    error.errno = libc::EPERM;
    probe::lacking(error, &needed)
}

/// The mode in which an interface runs a program; none if it does not run it.
pub fn mode_of(program_id: u32, ifindex: u32) -> Result<Option<Mode>, AttachError> {
    let hook = hook(ifindex)?;
    let mut modes = Mode::ALL.into_iter();
    Ok(modes.find(|mode| program_id != 0 && mode.program_id(&hook) == program_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netns;

    /// As when somebody moves the program to another mode between the query and the detachment.
    #[test]
    fn a_program_that_is_still_there_after_its_detachment_is_an_error() {
        netns::isolated("kernel::attach::still_there", || {
            let (ifindex, _) = netns::veth("near", "far");
            let fd = netns::foreign_program("ours", netns::Kind::Xdp).expect("load");
            let program = Program::from_fd(fd).expect("a program");
            let attached =
                NetlinkAttachment::create(&program, ifindex, Mode::Generic).expect("attach");
            let error = attached
                .detach_in(Mode::Native, &program)
                .expect_err("still there");
            assert_eq!(error.kind(), ErrorKind::Partial);
            let text = format!(
                "near still runs program {} (ours) in generic mode",
                program.id()
            );
            assert!(error.to_string().contains(&text), "{error}");
            attached.detach_in(Mode::Generic, &program).expect("detach");
        });
    }
}
