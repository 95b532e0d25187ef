// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The view between the watching thread and its readers.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::failure::Failure;
use super::object::Object;
use super::view::{Objects, View};
use super::Listing;
use crate::control::source::SourceErrorReason;
use crate::kernel::clock;

/// The view, and the event that tells readers of a change.
pub(super) struct Shared {
    namespace: String,
    view: Mutex<View>,
    listing: Mutex<Listing>,
    event: EventFd,
}

impl Shared {
    pub(super) fn new(namespace: String, listing: Listing) -> nix::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            namespace,
            view: Mutex::new(View::new()),
            listing: Mutex::new(listing),
            event: EventFd::from_flags(flags)?,
        })
    }

    /// No call on a view leaves it half changed, so one whose holder panicked is as good as any.
    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listing(&self) -> Listing {
        *self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Whether there was an event since the last call.
    pub(super) fn acknowledge(&self) -> bool {
        self.event.read().is_ok()
    }

    pub(super) fn replaces(&self, objects: Objects) {
        self.change(|view| {
            let faults = objects.values().filter(|object| object.is_err()).count();
            (0..faults).for_each(|_| view.count(SourceErrorReason::Parse));
            view.replace(objects)
        });
    }

    pub(super) fn applies(&self, object: Object) {
        self.change(|view| {
            if object.read.is_err() {
                view.count(SourceErrorReason::Parse);
            }
            view.apply(object)
        });
    }

    pub(super) fn deletes(&self, name: &str) {
        self.change(|view| view.delete(name));
    }

    pub(super) fn resumes(&self) {
        self.change(View::resume);
    }

    pub(super) fn fails(&self, failure: &Failure) {
        let why = failure.describe(&self.namespace);
        self.change(|view| view.fail(failure.reason, why, clock::monotonic()));
    }

    /// The thread ends, wanted or not, and nobody will tell of changes.
    pub(super) fn ends(&self) {
        let why = format!("namespace {} is watched no more", self.namespace);
        self.change(|view| view.fail(SourceErrorReason::Closed, why, clock::monotonic()));
    }

    /// Pages do where a streamed list did not.
    pub(super) fn falls_back(&self, failure: &Failure) {
        let listing = &self.listing;
        *listing.lock().unwrap_or_else(PoisonError::into_inner) = Listing::Pages;
        // It counts, so that somebody sees it; what is known is no worse for it.
        self.view().count(failure.reason);
    }

    fn change(&self, change: impl FnOnce(&mut View) -> bool) {
        let changed = change(&mut self.view());
        if changed {
            // Fails at the largest count alone, and then it is readable anyway.
            let _ = self.event.write(1);
        }
    }
}
