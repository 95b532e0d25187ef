// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Checks of an interface that has another owner, whose root program is to call the balancer.

use super::{check, Check, CheckCode, CheckResult};
use crate::plan::world::{Place, Shared};
use crate::service::{RootArray, Spec};

/// The place in the array, and the program that is to call it.
pub(super) fn checks(spec: &Spec, place: &RootArray, shared: &Shared) -> Vec<Check> {
    vec![at(place, &shared.place), root(spec, place, shared)]
}

fn at(place: &RootArray, found: &Place) -> Check {
    match found {
        Place::Free => check(
            CheckCode::Occupied,
            place,
            CheckResult::Ok,
            "no foreign program at the place".into(),
        ),
        Place::Occupied(program) => check(
            CheckCode::Occupied,
            place,
            CheckResult::Error,
            format!("{program} holds the place"),
        )
        .remedy("take it out if it is not needed, or use another index".into()),
        Place::Missing(why) => check(CheckCode::RootArray, place, CheckResult::Error, why.clone())
            .remedy("start the owner of the interface, or correct path and index".into()),
    }
}

fn root(spec: &Spec, place: &RootArray, shared: &Shared) -> Check {
    let result =
        |result, message: String| check(CheckCode::RootProgram, spec.interface(), result, message);
    match &shared.root {
        None => result(
            CheckResult::Warning,
            format!("nothing runs on the interface: no root program calls {place}"),
        )
        .remedy("start the owner of the interface".into()),
        Some((program, mode)) if *mode != spec.mode() => result(
            CheckResult::Error,
            format!(
                "{program} runs there, the specification says mode {}: what redirected frames need \
                 was not looked at",
                spec.mode()
            ),
        )
        .remedy(format!("write mode {mode}")),
        Some((program, _)) => result(CheckResult::Ok, format!("{program} runs there")),
    }
}
