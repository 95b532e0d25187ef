// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of the state directory is not as it should be.

use super::finding::{Finding, FindingCode};
use crate::egress::{Egress, InstanceError, Rows};
use crate::kernel::statedir::AbiVersion;

/// What there is to say of the directory that the instance is in.
pub(super) fn findings(egress: &Egress) -> Result<Vec<Finding>, InstanceError> {
    let dir = egress.dir();
    let path = dir.path().display();
    let mut findings = Vec::new();
    if dir.is_taken_over()? {
        let message =
            "a migration was interrupted: packets meet the old program or the new one, and \
                       nobody can write routes";
        findings.push(Finding::new(
            FindingCode::InterruptedMigration,
            path,
            message,
        ));
    }
    findings.extend(egress.lost_rows()?.into_iter().map(|rows| {
        let message = format!(
            "the map of {rows} was lost and made anew, and is empty: {}",
            match rows {
                Rows::Tenants =>
                    "no interface is a tenant's, and packets pass as the host routes them",
                Rows::Routes => "tenants' packets find no route",
            }
        );
        Finding::new(FindingCode::LostRows, rows, message)
    }));
    findings.extend(
        older(dir.version()?, AbiVersion::EGRESS)
            .map(|message| Finding::new(FindingCode::OlderLayout, dir.path().display(), message)),
    );
    Ok(findings)
}

/// What to say of state of an older version than this library makes.
fn older(found: AbiVersion, made: AbiVersion) -> Option<String> {
    (found < made).then(|| format!("its layout is version {found}, this egressd makes {made}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_an_older_version_is_told() {
        let version = |major, minor| AbiVersion { major, minor };
        assert_eq!(older(version(2, 1), version(2, 1)), None);
        assert_eq!(older(version(2, 2), version(2, 1)), None);
        let told = older(version(2, 0), version(2, 1)).expect("older");
        assert_eq!(told, "its layout is version 2.0, this egressd makes 2.1");
    }
}
