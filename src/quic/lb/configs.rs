// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use super::{Config, ConfigId, Delimited, ServerId, Unroutable};

/// The configurations that a balancer knows, at most one of each number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configs([Option<Config>; ConfigId::ALL.len()]);

/// Two configurations of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two configurations with ID {0}")]
pub struct DuplicateConfig(pub ConfigId);

impl Configs {
    /// No configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a configuration.
    pub fn insert(&mut self, config: Config) -> Result<(), DuplicateConfig> {
        let slot = &mut self.0[usize::from(config.id().get())];
        if slot.is_some() {
            return Err(DuplicateConfig(config.id()));
        }
        *slot = Some(config);
        Ok(())
    }

    /// The configuration of this number.
    pub fn get(&self, id: ConfigId) -> Option<&Config> {
        self.0[usize::from(id.get())].as_ref()
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Config> {
        self.0.iter().flatten()
    }

    /// The configuration and server ID that a connection ID names; see
    /// [`Config::decode_delimited`].
    pub fn decode(
        &self,
        cid: &[u8],
        delimited: Delimited,
    ) -> Result<(ConfigId, ServerId), Unroutable> {
        let &first = cid.first().ok_or(Unroutable::Short)?;
        let id = ConfigId::of_first_octet(first).ok_or(Unroutable::Reserved)?;
        let config = self.get(id).ok_or(Unroutable::Config)?;
        Ok((id, config.decode_delimited(cid, delimited)?))
    }
}
