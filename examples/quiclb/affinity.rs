// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `affinity-export` and `affinity-import`: bindings of connection IDs from one instance to another.

use std::path::Path;

use guideway::affinity::{
    AffinityDocument, Conflict, DocumentError, Example, Examples, ReadOptions,
};
use guideway::error::ErrorKind;
use guideway::quiclb::{
    read_affinity, ErrorFault, Exported, ImportError, Imported, QuicLb, ReadError, StateRoot,
    Writer,
};

use crate::args::{ExportArgs, ImportArgs};
use crate::input;
use crate::target::Target;
use crate::tool::text::Table;
use crate::tool::{Done, Failure, Output};

pub(crate) fn export(
    arguments: &ExportArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let instance = arguments.instance;
    let target = Target::new(&arguments.file, None)?;
    let document = QuicLb::open(&root.quiclb(instance)).and_then(|balancer| balancer.export());
    let document = document.map_err(|error| Failure::from(error).about(instance))?;
    target.write_with(|to| {
        serde_json::to_writer(&mut *to, &document)?;
        to.write_all(b"\n")
    })?;
    // Whoever reads the document there wants nothing behind it.
    if matches!(target, Target::Stdout) {
        return Ok(Done::Well);
    }
    let exported = Exported::new(instance, name(&arguments.file), &document);
    output
        .result(&exported, export_text)
        .map_err(|failure| failure.although(format!("{} is written", exported.file)))?;
    Ok(Done::Well)
}

pub(crate) fn import(
    arguments: &ImportArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let (instance, policy) = (arguments.instance, arguments.policy());
    let document = read(&arguments.file)?;
    let dir = root.quiclb(instance);
    let result = if arguments.dry_run {
        QuicLb::open(&dir)
            .map_err(ImportError::from)
            .and_then(|balancer| balancer.foresee_import(&document, policy))
    } else {
        Writer::open(&dir)
            .map_err(ImportError::from)
            .and_then(|mut writer| writer.import(&document, policy))
    };
    let report = result.map_err(|error| failure(error, policy).about(instance))?;
    let file = input::name(&arguments.file);
    let imported = Imported::new(instance, file, arguments.dry_run, report);
    output.result(&imported, import_text).map_err(|failure| {
        if arguments.dry_run {
            failure
        } else {
            failure.although(format!("the bindings are in {instance}"))
        }
    })?;
    if imported.report.rejected.total() == 0 {
        Ok(Done::Well)
    } else {
        Ok(Done::Partly)
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn read(path: &Path) -> Result<AffinityDocument, Failure> {
    let name = input::name(path);
    let options = ReadOptions::default();
    read_affinity(input::open(path)?, &options).map_err(|error| {
        let failure = match &error {
            ReadError::Document(DocumentError::Member {
                fault,
                line,
                column,
                ..
            }) => {
                let message =
                    format!("{name} is not accepted: a fault at line {line} column {column}");
                let fault = ErrorFault {
                    pointer: fault.pointer.clone(),
                    code: fault.code.to_string(),
                    message: fault.message.clone(),
                };
                Failure::new(error.kind(), message).with_faults([fault])
            }
            error => Failure::new(error.kind(), format!("{name} {error}")),
        };
        failure.about(name)
    })
}

fn failure(error: ImportError, policy: Conflict) -> Failure {
    match error {
        ImportError::Instance(error) => error.into(),
        ImportError::Conflict { report, .. } => {
            let kept = report.kept;
            let message = format!(
                "nothing is imported: {kept} connection IDs are bound to other backends here, and \
                 --conflict is {}",
                policy.as_str()
            );
            let conflicts = report.examples.kept.iter().map(conflict);
            Failure::new(ErrorKind::Conflict, message).with_faults(conflicts)
        }
        error => Failure::new(error.kind(), &error),
    }
}

fn conflict(example: &Example) -> ErrorFault {
    let bound = example.bound_to.map_or_else(String::new, |bound| {
        format!("is bound to backend {bound}, ")
    });
    ErrorFault {
        pointer: format!("{} {}", example.service_id, example.cid),
        code: "conflict".to_owned(),
        message: format!("{bound}the document says {}", example.backend),
    }
}

fn export_text(exported: &Exported) -> String {
    let Exported {
        instance_id,
        file,
        services,
        bindings,
        ..
    } = exported;
    format!("instance {instance_id}: {bindings} bindings of {services} services in {file}\n")
}

fn import_text(imported: &Imported) -> String {
    let report = &imported.report;
    let mut text = format!(
        "instance {}: {} of {} bindings{}\n",
        imported.instance_id,
        imported.file,
        report.total(),
        if imported.dry_run {
            ", nothing is written"
        } else {
            ""
        }
    );
    let rejected = &report.rejected;
    let mut table = Table::new(2, &["", ""], &[1]);
    for (what, number) in [
        ("accepted", report.accepted),
        ("unchanged", report.unchanged),
        ("kept", report.kept),
        ("replaced", report.replaced),
        ("unknown service", rejected.unknown_service),
        ("service differs", rejected.service_differs),
        ("unknown backend", rejected.unknown_backend),
        ("not usable", rejected.not_usable),
        ("duplicate in document", rejected.duplicate_in_document),
        ("length of the CID", rejected.cid_length),
        ("table full", rejected.table_full),
    ] {
        table.row([&what, &number]);
    }
    table.write(&mut text);
    examples(&report.examples, &mut text);
    text
}

/// As many of each reason as are read by anybody; `-o json` has them all.
fn examples(examples: &Examples, text: &mut String) {
    const MOST: usize = 5;
    for (what, examples) in [
        ("kept", &examples.kept),
        ("unknown service", &examples.unknown_service),
        ("service differs", &examples.service_differs),
        ("unknown backend", &examples.unknown_backend),
        ("not usable", &examples.not_usable),
        ("duplicate in document", &examples.duplicate_in_document),
        ("length of the CID", &examples.cid_length),
        ("table full", &examples.table_full),
    ] {
        for example in examples.iter().take(MOST) {
            let bound = example
                .bound_to
                .map_or_else(String::new, |bound| format!(", here backend {bound}"));
            text.push_str(&format!(
                "  {what}: service {} {} backend {}{bound}\n",
                example.service_id, example.cid, example.backend
            ));
        }
    }
}
