// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Keys in one allocation.

/// A list of byte strings, stored end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends; at most `TableSize::MAX` keys of 1,024 bytes, times two for a
    /// comparison, stay below 2^32.
    ends: Vec<u32>,
}

impl Keys {
    pub(super) fn with_capacity(keys: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(keys),
        }
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn get(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)? as usize;
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = &self.bytes[start..end as usize];
            start = end as usize;
            key
        })
    }
}
