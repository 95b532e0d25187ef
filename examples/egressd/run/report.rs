// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What there is to say of a sweep.

use guideway::control::source::Source;
use guideway::control::sweep::Swept;
use guideway::control::Outcome;
use guideway::control::{Desired, Mode, Pool, Problem, Step};

use guideway::egress::{UpgradeError, Upgraded};

use super::log::{Log, Wrong};
use super::worker::Done;

/// Says what became of a program that another build had loaded, and gives that back for those who ask
/// how it goes. Where it could not be exchanged that one goes on, as the maps are the same.
pub(crate) fn upgraded(upgraded: &Result<Upgraded, UpgradeError>, log: &Log) -> String {
    let event = "program";
    let upgraded = match upgraded {
        Ok(upgraded) => upgraded,
        Err(error) => {
            let message = format!("that of another build goes on: {error}");
            log.error(event, &message);
            return format!("{event}: {message}");
        }
    };
    let program = &upgraded.program;
    let (old, new) = (program.old_program_id, program.new_program_id);
    let interfaces = upgraded.interfaces.iter();
    let runs = interfaces.filter(|one| one.new_program_id == Some(new));
    let count = runs.count();
    let runs = match new == old {
        true => format!("{new} on {count} interfaces"),
        false => format!("{new} in the place of {old} on {count} interfaces"),
    };
    let faults = upgraded.interfaces.iter().any(|one| one.error.is_some());
    let everywhere = upgraded.done && !faults;
    let message = match everywhere {
        true => runs,
        false => format!("{runs}, but not on all"),
    };
    match everywhere {
        true => log.info(event, &message),
        false => log.error(event, &message),
    }
    for one in &upgraded.interfaces {
        if let Some(error) = &one.error {
            log.warning(event, &format!("{}: {error}", one.interface));
        }
    }
    format!("{event}: {message}")
}

/// Everything that is wrong after a sweep. The same texts come again as long as it is.
pub(crate) fn wrong(done: &Done, source: Option<String>) -> Vec<Wrong> {
    let problems = problems(done, source).into_iter().map(Wrong::Problem);
    let ineligible = ineligible(&done.desired).into_iter();
    problems.chain(ineligible.map(Wrong::Ineligible)).collect()
}

/// Shards that cannot translate for a class, though they could be members.
fn ineligible(desired: &Desired) -> Vec<String> {
    let Some(list) = desired
        .shards
        .value()
        .filter(|_| desired.mode == Mode::Hashed)
    else {
        return Vec::new();
    };
    let pool = Pool::of(&list.shards);
    let classes = desired.classes.iter().map(|entry| entry.class);
    let texts = classes.flat_map(|class| {
        let shards = pool.ineligible(class).collect::<Vec<_>>();
        let text = move |(name, sid)| format!("shard {name} ({sid}) does not translate {class}");
        shards.into_iter().map(text)
    });
    texts.collect()
}

fn problems(done: &Done, source: Option<String>) -> Vec<String> {
    let mut wrong: Vec<String> = source.iter().map(|why| format!("source: {why}")).collect();
    match &done.result {
        Err(failure) => wrong.push(format!("sweep failed: {failure}")),
        Ok(swept) => {
            let problems = swept.plan.problems.iter();
            // What the source says is said already.
            let problems =
                problems.filter(|problem| !matches!(problem, Problem::ShardsStale { .. }));
            wrong.extend(problems.map(ToString::to_string));
            wrong.extend(
                swept
                    .failures()
                    .map(|failure| format!("step failed: {failure}")),
            );
            wrong.extend(undone(swept));
            wrong.extend(broken(swept));
        }
    }
    if let Some(resolution) = &done.resolution {
        let missing = resolution.missing_uplinks.iter();
        wrong.extend(missing.map(|name| format!("uplink {name} does not exist")));
        let unkept = resolution.unkept.iter();
        wrong.extend(unkept.map(|one| {
            format!(
                "next hop {} is not kept alive by the kernel: {}",
                one.address, one.error
            )
        }));
    }
    match &done.astray {
        Ok(astray) => wrong.extend(astray.iter().map(|index| {
            format!(
                "the interface of a tenant with index {index} is gone or runs another program: \
                 egressd status tells which, egressd attach or apply gives the tenant another"
            )
        })),
        Err(error) => wrong.push(format!(
            "interfaces of tenants cannot be looked at: {error}"
        )),
    }
    if let Some(error) = &done.untold {
        wrong.push(format!("status cannot be told what was done: {error}"));
    }
    wrong
}

/// What of the source is not read, though it may be meant.
pub(crate) fn passed_over(source: &dyn Source) -> Vec<Wrong> {
    let texts = source.passed_over().into_iter();
    texts
        .map(|text| Wrong::Problem(format!("source: {text}")))
        .collect()
}

/// That idle pins stay.
pub(crate) fn untidy(why: &str) -> Wrong {
    Wrong::Problem(format!("idle pins cannot be removed: {why}"))
}

/// What must not be, and is after all steps.
fn broken(swept: &Swept) -> Vec<String> {
    let Some(invariants) = &swept.invariants else {
        return Vec::new();
    };
    let routes = invariants.routes.iter().map(|(kind, broken)| {
        let (count, first) = (broken.count, broken.first);
        format!(
            "{count} routes are wrong ({}), the first is {first}",
            kind.name()
        )
    });
    let classes = invariants.duplicates.iter();
    let classes = classes.map(|class| format!("several groups forward for {class}"));
    routes.chain(classes).collect()
}

/// A line for each step that was done.
pub(crate) fn done(done: &Done) -> Vec<String> {
    let Ok(swept) = &done.result else {
        return Vec::new();
    };
    let steps = swept.plan.steps.iter().zip(&swept.applied.steps);
    let steps = steps.filter(|(_, report)| report.outcome.is_done());
    let lines = steps.map(|(planned, _)| format!("{}: {}", step(&planned.step), planned.why));
    lines.collect()
}

/// Steps that were neither done nor failed. They may be so in every sweep until something changes.
fn undone(swept: &Swept) -> Vec<String> {
    let steps = swept.plan.steps.iter().zip(&swept.applied.steps);
    let lines = steps.filter_map(|(planned, report)| {
        let why = match &report.outcome {
            Outcome::Done | Outcome::Failed(_) => return None,
            Outcome::Raced(failure) => format!("put off, as it is otherwise by now: {failure}"),
            Outcome::Skipped { after } => format!("left out, as step {after} was not done"),
            Outcome::Late => "not begun in time".to_owned(),
            _ => "ended otherwise".to_owned(),
        };
        Some(format!("{}: {why}", step(&planned.step)))
    });
    lines.collect()
}

/// A step in words.
pub(crate) fn step(step: &Step) -> String {
    let name = step.name();
    match step {
        Step::PublishGroups(plans) | Step::PublishLiveness(plans) | Step::CloseGroups(plans) => {
            let groups = plans.iter().map(|plan| plan.snapshot().class.to_string());
            format!("{name} {}", groups.collect::<Vec<_>>().join(", "))
        }
        Step::WriteRoutes { tenant, routes } => {
            let prefixes = routes.keys().map(ToString::to_string);
            let prefixes = prefixes.collect::<Vec<_>>().join(", ");
            format!("{name} of tenant {}: {prefixes}", tenant.table)
        }
        Step::MoveRoutes { class, moves, .. } => format!("{name} of {class}: {}", moves.len()),
        Step::Retire { group, class, .. } => format!("{name} group {group} of {class}"),
        _ => name.to_owned(),
    }
}
