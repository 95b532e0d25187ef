// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `doctor`: check an instance, or a specification before it is applied.

use std::path::Path;

use guideway::plan::CheckResult;
use guideway::quiclb::{Diagnosis, DoctorCheck, StateRoot};

use crate::args::DoctorArgs;
use crate::input;
use crate::plan::result_text;
use crate::tool::text::checks;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &DoctorArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let diagnosis = match input::instance(&arguments.object) {
        Some(instance) => Diagnosis::of_instance(&root.quiclb(instance))
            .map_err(|error| Failure::from(error).about(instance))?,
        None => {
            let path = Path::new(&arguments.object);
            let spec = input::Document::parse(path, &input::read(path)?)?.into_spec();
            Diagnosis::of_spec(root, input::name(path), &spec)
                .map_err(|error| Failure::from(error).about(input::name(path)))?
        }
    };
    output.result(&diagnosis, text)?;
    Ok(Done::degraded_if(diagnosis.result == CheckResult::Error))
}

fn text(diagnosis: &Diagnosis) -> String {
    let unknown = |check: &&DoctorCheck| check.result == CheckResult::Unknown;
    let result = match diagnosis.result {
        // What cannot be seen is in nobody's way.
        CheckResult::Unknown => {
            let count = diagnosis.checks.iter().filter(unknown).count();
            format!("ok, {count} unknown")
        }
        result => result_text(result).to_owned(),
    };
    let mut text = format!("{}: {result}\n", diagnosis.object);
    checks(
        &mut text,
        "checks",
        diagnosis.checks.iter().map(|check| {
            let (code, object) = (check.code.clone(), check.object.as_str());
            let remedy = check.remedy.as_deref();
            (
                result_text(check.result),
                code,
                object,
                check.message.clone(),
                remedy,
            )
        }),
    );
    text
}
