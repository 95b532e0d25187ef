// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads the event ring.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::Duration;

use bytemuck::Pod;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::map::{Map, MapKind, MapShape, ShapeError};
use super::sys::check;
use super::SysError;

/// Records taken out of the ring before any of them is handed on.
const BATCH: usize = 256;

/// Why a ring cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The map is no ring buffer.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The kernel refused.
    #[error(transparent)]
    Sys(#[from] SysError),
}

/// The reader of a ring buffer whose records are all of type `T`. One ring has one reader: two
/// would take records from each other.
///
/// [`AsFd`] gives a descriptor that is readable while there are records, for loops that wait for
/// more than this.
#[derive(Debug)]
pub struct Ring<T> {
    ring: NonNull<libbpf_sys::ring_buffer>,
    /// Where the callback puts records. libbpf keeps the address, so it must never move; a raw
    /// pointer because the callback writes there while this struct is borrowed.
    taken: NonNull<Taken<T>>,
    map: Map,
}

#[derive(Debug)]
struct Taken<T> {
    records: Vec<T>,
    malformed: u64,
}

// SAFETY: the ring and the place for records are reachable through this value alone, and libbpf
// ties a ring buffer to no thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Pod> Ring<T> {
    /// Starts to read a ring buffer.
    pub fn new(map: Map) -> Result<Self, RingError> {
        let expected = MapShape {
            kind: MapKind::RINGBUF,
            ..map.shape().clone()
        };
        map.shape()
            .check(&expected, format_args!("map {}", map.shape().name))?;
        let taken = Box::new(Taken {
            records: Vec::with_capacity(BATCH),
            malformed: 0,
        });
        let taken = NonNull::from(Box::leak(taken));
        // SAFETY: the callback's context is a `Taken<T>` that lives until the ring is freed.
        let ring = unsafe {
            libbpf_sys::ring_buffer__new(
                map.as_fd().as_raw_fd(),
                Some(take::<T>),
                taken.as_ptr().cast::<c_void>(),
                std::ptr::null(),
            )
        };
        match NonNull::new(ring) {
            Some(ring) => Ok(Self { ring, taken, map }),
            None => {
                let errno = Errno::last();
                // SAFETY: leaked above, and libbpf kept nothing of a ring it could not make.
                drop(unsafe { Box::from_raw(taken.as_ptr()) });
                let object = format!("map {}", map.shape().name);
                Err(SysError::from_nix("read the ring", object, errno).into())
            }
        }
    }

    /// Waits up to `timeout` for a record, then hands at most `limit` records to `each`, in the
    /// order of the ring; returns their number. A signal ends the wait early.
    pub fn poll(
        &mut self,
        timeout: Duration,
        limit: usize,
        mut each: impl FnMut(&T),
    ) -> Result<usize, SysError> {
        let mut delivered = self.consume(limit, &mut each)?;
        if delivered == 0 && limit > 0 && !timeout.is_zero() && self.wait(timeout)? {
            delivered = self.consume(limit, &mut each)?;
        }
        Ok(delivered)
    }

    /// Records of another size than `T` that were skipped.
    pub fn malformed(&self) -> u64 {
        // SAFETY: valid until drop; only `consume`, which needs `&mut self`, writes there.
        unsafe { self.taken.as_ref() }.malformed
    }

    fn consume(&mut self, limit: usize, each: &mut impl FnMut(&T)) -> Result<usize, SysError> {
        let mut delivered = 0;
        while delivered < limit {
            let room = (limit - delivered).min(BATCH);
            // SAFETY: the ring is valid until drop; the callback is the only one to touch
            // `taken` during the call.
            let result = unsafe {
                libbpf_sys::ring_buffer__consume_n(self.ring.as_ptr(), room as libbpf_sys::size_t)
            };
            let seen = check(result, "read the ring", &self.map.shape().name)?;
            // SAFETY: valid until drop, and no call of libbpf is running.
            let records = unsafe { &mut self.taken.as_mut().records };
            delivered += records.len();
            records.drain(..).for_each(|record| each(&record));
            if seen == 0 {
                break;
            }
        }
        Ok(delivered)
    }

    fn wait(&self, timeout: Duration) -> Result<bool, SysError> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            Ok(count) => Ok(count > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(SysError::from_nix(
                "wait for",
                &self.map.shape().name,
                errno,
            )),
        }
    }
}

/// Called by libbpf for each record.
extern "C" fn take<T: Pod>(
    context: *mut c_void,
    data: *mut c_void,
    size: libbpf_sys::size_t,
) -> c_int {
    // SAFETY: the context that was registered, which nobody else uses during the call.
    let taken = unsafe { &mut *context.cast::<Taken<T>>() };
    if size as usize == std::mem::size_of::<T>() && !data.is_null() {
        // SAFETY: the record has the size of a `T`, any bytes are a `T`, and no alignment is
        // assumed.
        taken
            .records
            .push(unsafe { data.cast::<T>().read_unaligned() });
    } else {
        taken.malformed = taken.malformed.saturating_add(1);
    }
    0
}

impl<T> AsFd for Ring<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring, which lives until drop.
        unsafe { BorrowedFd::borrow_raw(libbpf_sys::ring_buffer__epoll_fd(self.ring.as_ptr())) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: both were made by `new` and are used by nobody after this.
        unsafe {
            libbpf_sys::ring_buffer__free(self.ring.as_ptr());
            drop(Box::from_raw(self.taken.as_ptr()));
        }
    }
}
