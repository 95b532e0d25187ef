// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writes single entries of the table of connection IDs, while packets and others write it too.

use std::time::{Duration, Instant};

use crate::abi::{self, BindOperation, BindResult};
use crate::affinity::{cid_tag, Binding, CidKey, Phase};
use crate::kernel::map::Map;
use crate::kernel::routine::{LoadError, Options, Routine, Source};
use crate::kernel::typed::Hash;
use crate::kernel::SysError;

/// What stands in the way of an entry never lasts longer: a sweep that is about to delete it, or a
/// lock of the kernel.
const PATIENCE: Duration = Duration::from_secs(2);

/// The program that writes entries.
#[derive(Debug)]
pub(super) struct Binder {
    routine: Routine,
    seed: u64,
}

impl Binder {
    /// Loads the program around the maps of an instance.
    pub(super) fn load(
        maps: &[&Map],
        entries: &[(&str, u32)],
        seed: u64,
    ) -> Result<Self, LoadError> {
        let reuse = maps
            .iter()
            .map(|map| map.try_clone())
            .collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            entries,
            reuse: &reuse,
            ..Options::default()
        };
        let routine = options.load(Source::Bind)?.take("gw_bind")?;
        Ok(Self { routine, seed })
    }
}

/// The table of connection IDs, to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) cids: &'a Hash<abi::CidKey, abi::Binding>,
    pub(super) binder: &'a Binder,
    /// Index of the counters of the service, if what is added is to be counted as imported.
    pub(super) stats: Option<u32>,
}

/// What is to become of an entry.
pub(super) enum Judged<T> {
    /// This takes its place.
    Write(Binding),
    /// It stays, or there stays none.
    Leave(T),
}

/// What became of an entry.
#[derive(Debug)]
pub(super) enum Settled<T> {
    /// It was written, in place of another or not.
    Written { before: Option<Binding> },
    /// It was left.
    Left(T),
    /// There is no room for it.
    Full,
    /// Somebody held on to it all the time.
    Busy,
}

/// What the program answers.
#[derive(Debug)]
pub(super) enum Reply {
    Done,
    Other(Binding),
    Missing,
    Full,
    Busy,
}

/// The entry of a connection ID; none if the memory that was read is a stranger's by now.
pub(super) fn look_up(
    cids: &Hash<abi::CidKey, abi::Binding>,
    seed: u64,
    key: &CidKey,
) -> Result<Option<Binding>, SysError> {
    let key = key.to_abi();
    let entry = cids.get(&key)?.map(|entry| Binding::from_abi(&entry));
    Ok(entry.filter(|entry| entry.tag == cid_tag(&key, seed)))
}

impl Table<'_> {
    /// Writes an entry as `judge` says of the one that is there, asking again if that changes in
    /// the meantime.
    pub(super) fn write<T>(
        &self,
        key: &CidKey,
        mut judge: impl FnMut(Option<&Binding>) -> Judged<T>,
    ) -> Result<Settled<T>, SysError> {
        let mut waiting = Waiting::new();
        let mut found = self.look_up(key)?;
        loop {
            let reply = match found {
                // It is gone in a moment.
                Some(entry) if !matches!(entry.phase, Phase::Live | Phase::Expiring) => Reply::Busy,
                before => match judge(before.as_ref()) {
                    Judged::Leave(why) => return Ok(Settled::Left(why)),
                    Judged::Write(wanted) => match self.exchange(key, before.as_ref(), &wanted)? {
                        Reply::Done => return Ok(Settled::Written { before }),
                        Reply::Full => return Ok(Settled::Full),
                        other => other,
                    },
                },
            };
            found = match reply {
                Reply::Other(entry) if entry.tag == self.tag(key) => Some(entry),
                Reply::Missing => None,
                _ => {
                    if !waiting.go_on() {
                        return Ok(Settled::Busy);
                    }
                    self.look_up(key)?
                }
            };
        }
    }

    /// Deletes the entry that is there if `judge` says so; none if somebody held on to it all the
    /// time, otherwise whether it was deleted.
    pub(super) fn delete(
        &self,
        key: &CidKey,
        mut judge: impl FnMut(&Binding) -> bool,
    ) -> Result<Option<bool>, SysError> {
        let mut waiting = Waiting::new();
        let mut found = self.look_up(key)?;
        loop {
            let Some(entry) = found else {
                return Ok(Some(false));
            };
            let reply = if matches!(entry.phase, Phase::Live | Phase::Expiring) {
                if !judge(&entry) {
                    return Ok(Some(false));
                }
                self.call(key, BindOperation::GW_BIND_DELETE, &entry, &entry)?
            } else {
                Reply::Busy
            };
            found = match reply {
                Reply::Done => return Ok(Some(true)),
                Reply::Other(entry) if entry.tag == self.tag(key) => Some(entry),
                Reply::Missing => return Ok(Some(false)),
                _ => {
                    if !waiting.go_on() {
                        return Ok(None);
                    }
                    self.look_up(key)?
                }
            };
        }
    }

    fn look_up(&self, key: &CidKey) -> Result<Option<Binding>, SysError> {
        look_up(self.cids, self.binder.seed, key)
    }

    fn tag(&self, key: &CidKey) -> u16 {
        cid_tag(&key.to_abi(), self.binder.seed)
    }

    /// Puts an entry in place of another, or adds it where there is none, if that is so.
    pub(super) fn exchange(
        &self,
        key: &CidKey,
        before: Option<&Binding>,
        wanted: &Binding,
    ) -> Result<Reply, SysError> {
        match before {
            None => self.call(key, BindOperation::GW_BIND_INSERT, wanted, wanted),
            Some(before) => self.call(key, BindOperation::GW_BIND_EXCHANGE, before, wanted),
        }
    }

    fn call(
        &self,
        key: &CidKey,
        operation: BindOperation,
        expected: &Binding,
        wanted: &Binding,
    ) -> Result<Reply, SysError> {
        let mut request = abi::BindRequest {
            key: key.to_abi(),
            operation: operation.0,
            expected: expected.to_abi(),
            wanted: wanted.to_abi(),
            result: BindResult::GW_BIND_UNKNOWN.0,
            stats: self.stats.unwrap_or(abi::Index::GW_INDEX_NONE.0),
        };
        self.binder.routine.call(&mut request)?;
        Ok(match BindResult(request.result) {
            BindResult::GW_BIND_DONE => Reply::Done,
            BindResult::GW_BIND_OTHER => Reply::Other(Binding::from_abi(&request.expected)),
            BindResult::GW_BIND_MISSING => Reply::Missing,
            BindResult::GW_BIND_FULL => Reply::Full,
            // The program knows all operations that it is asked for.
            _ => Reply::Busy,
        })
    }
}

/// Patience with what others are doing.
struct Waiting {
    since: Instant,
    times: u32,
}

impl Waiting {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            times: 0,
        }
    }

    /// Waits a moment; whether it is worth to try again.
    fn go_on(&mut self) -> bool {
        self.times += 1;
        if self.times < 10 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.since.elapsed() < PATIENCE
    }
}
