// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Being told of changes in a directory, or of one that appears.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::{is_manifest, Place};
use crate::kernel::SysError;

/// Readings before others are attended to; events that are left keep the descriptor readable.
const MOST_READS: usize = 64;

/// Notifications about one place.
#[derive(Debug)]
pub(super) struct Watch {
    inotify: Inotify,
    watched: Option<Watched>,
}

/// A watched directory, and which names in it matter.
#[derive(Debug)]
struct Watched {
    descriptor: WatchDescriptor,
    names: Names,
    /// It is not the place's directory, which does not exist, but one above it.
    above: bool,
}

#[derive(Debug)]
enum Names {
    Manifests,
    /// The file itself, or the next directory on the way to the place.
    One(OsString),
}

impl Watch {
    pub(super) fn new() -> Result<Self, SysError> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let inotify = Inotify::init(flags)
            .map_err(|errno| SysError::from_nix("make", "an inotify instance", errno))?;
        Ok(Self {
            inotify,
            watched: None,
        })
    }

    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Watches what is there by now: the directory, or the last one on the way to it that exists. A
    /// directory that cannot be watched is not; each sweep reads the place all the same.
    pub(super) fn renew(&mut self, place: &Place) {
        let mut next = self.watch(place);
        // It appeared after it was found missing, and before that was watched.
        if next.as_ref().is_some_and(|next| next.above) && directory(place).is_dir() {
            next = self.watch(place);
        }
        let before = std::mem::replace(&mut self.watched, next);
        // The same directory has the same descriptor.
        if let Some(before) = before {
            let now = self.watched.as_ref().map(|watched| watched.descriptor);
            if now != Some(before.descriptor) {
                // Gone by itself if the directory was removed.
                let _ = self.inotify.rm_watch(before.descriptor);
            }
        }
    }

    fn watch(&self, place: &Place) -> Option<Watched> {
        let mut names = match place {
            Place::Directory(_) => Names::Manifests,
            Place::File(path) => Names::One(name(path)),
        };
        for (distance, directory) in directory(place).ancestors().enumerate() {
            let directory = match directory.as_os_str().is_empty() {
                true => Path::new("."),
                false => directory,
            };
            match self.inotify.add_watch(directory, flags()) {
                Ok(descriptor) => {
                    return Some(Watched {
                        descriptor,
                        names,
                        above: distance > 0,
                    })
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => names = Names::One(name(directory)),
                Err(_) => return None,
            }
        }
        None
    }

    /// Reads the events; whether one of them matters.
    pub(super) fn acknowledge(&mut self) -> bool {
        let mut matters = false;
        for _ in 0..MOST_READS {
            match self.inotify.read_events() {
                Ok(events) => matters |= events.iter().any(|event| self.matters(event)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // Whatever it is, reading the place tells the truth.
                Err(_) => return true,
            }
        }
        matters
    }

    fn matters(&self, event: &InotifyEvent) -> bool {
        let Some(name) = &event.name else {
            // About the directory itself, or that events were lost; not that a watch has ended.
            return event.mask != AddWatchFlags::IN_IGNORED;
        };
        match &self.watched {
            Some(watched) if watched.descriptor == event.wd => watched.names.contain(name),
            // Of a directory that was watched before.
            _ => true,
        }
    }
}

impl Names {
    fn contain(&self, name: &OsStr) -> bool {
        // A mounted ConfigMap is a directory of links through `..data`, which is replaced.
        let is_link = name.as_encoded_bytes().starts_with(b"..");
        is_link
            || match self {
                Self::Manifests => is_manifest(name),
                Self::One(one) => one == name,
            }
    }
}

fn flags() -> AddWatchFlags {
    AddWatchFlags::IN_ONLYDIR
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
}

/// The directory that the place is, or is in.
fn directory(place: &Place) -> &Path {
    match place {
        Place::Directory(path) => path,
        Place::File(path) => path.parent().unwrap_or(Path::new("/")),
    }
}

fn name(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().to_owned()
}
