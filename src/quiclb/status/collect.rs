// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Gathers the status of an instance, and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use super::lost::Lost;
use super::shared::{in_arrays, shared};
use super::state::affinity;
use super::{
    has_errors, Abi, Attachment, AttachmentKind, BackendCounters, BackendEntries, BackendStatus,
    GenerationStatus, Health, Owner, Profile, ProgramStatus, RedirectErrorSource, RedirectErrors,
    ServiceStatus, Status, StatusSchema, TableStatus, APPLY,
};
use crate::error::NOT_OURS;
use crate::hex;
use crate::id::InterfaceName;
use crate::kernel::attach::{occupants, Occupant};
use crate::kernel::build::Build;
use crate::kernel::clock;
use crate::kernel::exchange::Role;
use crate::kernel::program::Program;
use crate::kernel::statedir::{AbiVersion, Section, StateDir, StateError};
use crate::plan::{ifindex_drift, reach, CheckCode, CheckResult, Live};
use crate::quiclb::attachment::{index_of, mode_here, LINK};
use crate::quiclb::error::InstanceError;
use crate::quiclb::finding::{Finding, FindingCode};
use crate::quiclb::instance::{QuicLb, PROGRAM};
use crate::quiclb::loader::build_with;
use crate::quiclb::mend;
use crate::quiclb::observe::observe;
use crate::quiclb::ours::{
    foreign_map, foreign_programs, pinned_link, pinned_programs, unknown_links,
};
use crate::quiclb::stats::{ServiceStats, Stats};
use crate::reason::Reason;
use crate::service::Mode;

pub(super) fn collect(dir: &StateDir) -> Result<Status, InstanceError> {
    let abi = match dir.version() {
        Ok(abi) => Some(abi),
        // The map that tells the version is lost; what else is there may still be of use.
        Err(StateError::Open(error)) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    match QuicLb::open(dir) {
        Ok(instance) => whole(&instance, abi),
        Err(error) if abi.is_none() => {
            let remedy = error.remedy().unwrap_or_default();
            partial(dir, abi, FindingCode::LostPin, &error, remedy)
        }
        Err(error @ InstanceError::Older { .. }) => {
            let remedy = error.remedy().unwrap_or_default();
            partial(dir, abi, FindingCode::OlderLayout, &error, remedy)
        }
        Err(error) if error.is_repairable() => {
            let remedy = error.remedy().unwrap_or(APPLY);
            let mut status = partial(dir, abi, FindingCode::LostPin, &error, remedy)?;
            let lost = mend::findings(dir)?;
            if matches!(error, InstanceError::Map(_)) && !lost.is_empty() {
                // They tell more than the error, which names one of them.
                status.findings.remove(0);
            }
            status.findings.splice(0..0, lost);
            Ok(status)
        }
        Err(error) => Err(error),
    }
}

/// An instance with all its pins.
fn whole(instance: &QuicLb, abi: Option<AbiVersion>) -> Result<Status, InstanceError> {
    let mut findings = match instance.maps.contexts {
        Some(_) => Vec::new(),
        // Without it an instance is whole, too, if the program does not decrypt.
        None => mend::findings(instance.dir())?,
    };
    foreign_pins(instance.dir(), &mut findings)?;
    let live = live(instance, &mut findings)?;
    let stats = instance.stats_of(live.as_ref())?;
    let (attachment, mode) = attachment(instance, live.as_ref(), &mut findings)?;
    let attached = attachment.owner == Owner::Ours;

    // Of another network namespace the interfaces cannot be asked.
    let in_sight = !found(&findings, FindingCode::OtherNamespace);
    if let Some(live) = &live {
        leftovers(instance, live, &mut findings)?;
        missing_keys(instance, live, &mut findings)?;
        if in_sight {
            drift(instance, live, &mut findings)?;
        }
    }
    counted(&stats, &mut findings);
    let affinity = match &live {
        Some(live) => affinity(instance, live, &stats, &mut findings)?,
        None => Default::default(),
    };
    let lost = match &live {
        Some(live) if in_sight => lost(live, &mut findings)?,
        _ => Lost::default(),
    };
    let build = other_build(instance, &mut findings)?;
    let program = instance.program();
    let mut status = empty(instance.dir(), abi, attachment, health(attached, &findings));
    status.program.name = Some(program.name().to_owned());
    status.program.tag = Some(hex::encode(&program.tag()));
    status.program.build = build;
    status.redirect_errors = RedirectErrors {
        source: match lost.total() {
            Some(_) => RedirectErrorSource::Device,
            None => RedirectErrorSource::None,
        },
        total: lost.total(),
    };
    status.affinity = affinity;
    status.reasons = stats.reasons;
    status.events = Some(stats.events);
    status.mode = mode;
    let unreadable = found(&findings, FindingCode::UnreadableRecord);
    status.findings = findings;
    if let Some(live) = &live {
        status.interface = Some(live.spec().interface().clone());
        status.ifindex = Some(live.record.ifindex);
        status.mode = mode.or_else(|| Some(live.spec().mode()));
        let since = clock::boot_ns().saturating_sub(live.record.published_ns);
        status.generation = Some(GenerationStatus {
            number: live.number(),
            digest: Some(live.digest().to_owned()),
            age_seconds: Some(since / 1_000_000_000),
            high_water: instance.generation_mark()?,
        });
        status.services = services(instance, live, stats.services, &lost)?;
    } else if unreadable {
        // Its pin still tells the number.
        status.generation = match instance.live()? {
            Some(published) => Some(GenerationStatus {
                number: published.number,
                digest: None,
                age_seconds: None,
                high_water: instance.generation_mark()?,
            }),
            None => None,
        };
    }
    Ok(status)
}

/// An instance that has lost pins: what is known of it without them.
fn partial(
    dir: &StateDir,
    abi: Option<AbiVersion>,
    code: FindingCode,
    error: &InstanceError,
    remedy: &str,
) -> Result<Status, InstanceError> {
    let mut findings = vec![Finding::new(
        code,
        dir.path().display(),
        error.to_string(),
        remedy,
    )];
    foreign_pins(dir, &mut findings)?;
    let mut attachment = detached(None);
    in_arrays(dir, &mut attachment)?;
    if let Some(link) = pinned_link(dir)? {
        let state = link.state()?;
        attachment.kind = AttachmentKind::Link;
        attachment.link_id = Some(state.id);
        attachment.program_id = Some(state.program_id);
        match state.ifindex {
            Some(ifindex) => {
                attachment.live_program_id = Some(state.program_id);
                attachment.owner = Owner::Ours;
                if mode_here(&state)?.is_none() {
                    findings.push(other_namespace(dir, ifindex));
                }
            }
            None => findings.push(dead_link(dir)),
        }
    }
    let attached = attachment.owner == Owner::Ours;
    let mut status = empty(dir, abi, attachment, health(attached, &findings));
    status.findings = findings;
    Ok(status)
}

/// A status of which only this is known.
fn empty(
    dir: &StateDir,
    abi: Option<AbiVersion>,
    attachment: Attachment,
    health: Health,
) -> Status {
    Status {
        schema: StatusSchema::V1,
        instance_id: dir.instance(),
        interface: None,
        ifindex: None,
        mode: None,
        health,
        attachment,
        program: ProgramStatus {
            name: None,
            tag: None,
            abi: abi.map(|AbiVersion { major, minor }| Abi { major, minor }),
            profile: Profile::Host,
            build: None,
        },
        generation: None,
        services: Vec::new(),
        reasons: BTreeMap::new(),
        affinity: Default::default(),
        events: None,
        redirect_errors: RedirectErrors {
            source: RedirectErrorSource::None,
            total: None,
        },
        findings: Vec::new(),
    }
}

fn found(findings: &[Finding], code: FindingCode) -> bool {
    findings.iter().any(|finding| finding.code == code)
}

fn health(attached: bool, findings: &[Finding]) -> Health {
    match (attached, has_errors(findings)) {
        (false, _) => Health::Detached,
        (true, true) => Health::Degraded,
        (true, false) => Health::Ok,
    }
}

/// What is pinned under the instance's names, or among its links, and is not the instance's.
fn foreign_pins(dir: &StateDir, findings: &mut Vec<Finding>) -> Result<(), InstanceError> {
    let programs = foreign_programs(dir)?.into_iter();
    let programs = programs.map(|(role, error)| {
        let path = dir.pin(Section::Programs, &role.pin(PROGRAM));
        (path, error)
    });
    let foreign = programs.chain(foreign_map(dir)?).chain(unknown_links(dir)?);
    findings.extend(foreign.map(|(path, error)| {
        let code = FindingCode::ForeignPin;
        Finding::new(code, path.display(), error.to_string(), NOT_OURS)
    }));
    Ok(())
}

/// The live generation; what keeps it from being read is a finding.
fn live(instance: &QuicLb, findings: &mut Vec<Finding>) -> Result<Option<Live>, InstanceError> {
    let path = instance.dir().path().display();
    let finding = match instance.live_record() {
        Ok(Some(live)) => return Ok(Some(live)),
        Ok(None) => Finding::new(
            FindingCode::NoGeneration,
            path,
            "nothing is published: every packet passes to the host",
            APPLY,
        ),
        Err(error @ InstanceError::Orphan { .. }) => {
            let remedy = error.remedy().unwrap_or_default();
            Finding::new(
                FindingCode::OrphanGeneration,
                path,
                error.to_string(),
                remedy,
            )
        }
        Err(
            error @ (InstanceError::Stored(_)
            | InstanceError::Record(_)
            | InstanceError::OtherRecord { .. }),
        ) => {
            let remedy = error.remedy().unwrap_or_default();
            Finding::new(
                FindingCode::UnreadableRecord,
                path,
                error.to_string(),
                remedy,
            )
        }
        Err(error) => return Err(error),
    };
    findings.push(finding);
    Ok(None)
}

pub(super) fn detached(program_id: Option<u32>) -> Attachment {
    Attachment {
        kind: AttachmentKind::None,
        link_id: None,
        program_id,
        live_program_id: None,
        owner: Owner::None,
        previous_program_id: None,
        root_array: None,
    }
}

fn dead_link(dir: &StateDir) -> Finding {
    Finding::new(
        FindingCode::LinkWithoutInterface,
        dir.pin(Section::Links, LINK).display(),
        "the interface that the link held is gone",
        APPLY,
    )
}

fn other_namespace(dir: &StateDir, ifindex: u32) -> Finding {
    Finding::new(
        FindingCode::OtherNamespace,
        dir.pin(Section::Links, LINK).display(),
        format!(
            "attached to interface {ifindex} of another network namespace: no interface was looked \
             at"
        ),
        "ask again there: nsenter --net=/run/netns/NAME, or nsenter --net --target PID",
    )
}

/// What the interface runs, and what holds it there; in which mode, if it is this instance's and
/// in sight.
fn attachment(
    instance: &QuicLb,
    live: Option<&Live>,
    findings: &mut Vec<Finding>,
) -> Result<(Attachment, Option<Mode>), InstanceError> {
    let ours = instance.program().id();
    let mut attachment = detached(Some(ours));
    let programs = pinned_programs(instance.dir())?;
    if programs.get(Role::Next).is_some() {
        let pin = Role::Next.pin(PROGRAM);
        findings.push(Finding::new(
            FindingCode::OpenExchange,
            instance.dir().pin(Section::Programs, &pin).display(),
            "an exchange of the program was interrupted, or is under way",
            "upgrade again, or rollback",
        ));
    }
    attachment.previous_program_id = programs.get(Role::Previous).map(Program::id);
    in_arrays(instance.dir(), &mut attachment)?;
    let link = match pinned_link(instance.dir())? {
        Some(link) => Some(link.state()?),
        None => None,
    };
    if let Some(link) = &link {
        attachment.kind = AttachmentKind::Link;
        attachment.link_id = Some(link.id);
        let mode = mode_here(link)?;
        match link.ifindex {
            None => findings.push(dead_link(instance.dir())),
            // Without a record the interface is known by the link alone.
            Some(ifindex) if mode.is_none() || live.is_none() => {
                attachment.live_program_id = Some(link.program_id);
                attachment.owner = Owner::Ours;
                if mode.is_none() {
                    findings.push(other_namespace(instance.dir(), ifindex));
                }
                return Ok((attachment, mode.map(Mode::from)));
            }
            Some(_) => {}
        }
    }
    let Some(live) = live else {
        return Ok((attachment, None));
    };
    if let Some(place) = live.spec().root_array() {
        return shared(instance, live, place, findings);
    }
    let interface = live.spec().interface();
    let Some(ifindex) = index_of(interface)? else {
        findings.push(no_interface(interface));
        return Ok((attachment, None));
    };
    let linked = link.filter(|link| link.ifindex == Some(ifindex));
    let Some(occupant) = occupants(ifindex)?.into_iter().next() else {
        return Ok((attachment, None));
    };
    attachment.live_program_id = Some(occupant.program_id);
    let is_linked = linked.is_some_and(|link| link.program_id == occupant.program_id);
    let is_ours = is_linked || programs.with_id(occupant.program_id).is_some();
    if is_ours && occupant.program_id != ours {
        findings.push(Finding::new(
            FindingCode::OtherProgram,
            interface,
            format!("{occupant} runs, the pinned program is {ours}"),
            APPLY,
        ));
    }
    if is_linked {
        attachment.owner = Owner::Ours;
    } else if is_ours {
        attachment.owner = Owner::Ours;
        attachment.link_id = occupant.link_id;
        attachment.kind = match occupant.link_id {
            Some(_) => AttachmentKind::Link,
            None => AttachmentKind::Netlink,
        };
        findings.extend(unpinned(interface, &occupant));
    } else {
        attachment.owner = Owner::Foreign;
        findings.push(Finding::new(
            FindingCode::ForeignProgram,
            interface,
            format!("{occupant} holds the interface"),
            "take it off if it is not needed, or use another interface",
        ));
        return Ok((attachment, None));
    }
    let mode = Mode::from(occupant.mode);
    if mode != live.spec().mode() {
        findings.push(Finding::new(
            FindingCode::ModeDrift,
            interface,
            format!(
                "runs in {mode} mode, the specification says {}",
                live.spec().mode()
            ),
            format!("detach it, then {APPLY}"),
        ));
    }
    Ok((attachment, Some(mode)))
}

pub(super) fn no_interface(interface: &InterfaceName) -> Finding {
    Finding::new(
        FindingCode::NoInterface,
        interface,
        "there is no such interface here",
        format!("create {interface}, then {APPLY}"),
    )
}

fn unpinned(interface: &InterfaceName, occupant: &Occupant) -> Option<Finding> {
    let link = occupant.link_id?;
    Some(Finding::new(
        FindingCode::UnpinnedLink,
        interface,
        format!("link {link} holds the program and is not pinned: it ends with its owner"),
        APPLY,
    ))
}

/// What the program was made of; that another build did is a finding.
fn other_build(
    instance: &QuicLb,
    findings: &mut Vec<Finding>,
) -> Result<Option<Build>, InstanceError> {
    let id = instance.program().id();
    let object = format!("program {id}");
    // With or without decryption, as the instance has it; of the maps that is the only one whose loss
    // leaves it whole.
    let lost = found(findings, FindingCode::LostPin);
    let built = build_with(instance.maps.contexts.is_some() || lost);
    let build = Build::of(instance.dir(), id)?;
    let message = match &build {
        Some(build) if build.makes_the_same(&built) => return Ok(Some(build.clone())),
        Some(build) => format!("is of build {build}, this tool's is {built}"),
        None => format!("nothing tells of which build it is, this tool's is {built}"),
    };
    let remedy = "upgrade it, or use the tool of its build";
    findings.push(Finding::new(
        FindingCode::OtherBuild,
        object,
        message,
        remedy,
    ));
    Ok(build)
}

fn leftovers(
    instance: &QuicLb,
    live: &Live,
    findings: &mut Vec<Finding>,
) -> Result<(), InstanceError> {
    // Records of former generations are kept for a return to them.
    let names = instance.leftovers(live.number(), None)?;
    findings.extend(names.into_iter().map(|name| {
        Finding::new(
            FindingCode::Leftover,
            instance.dir().pin(Section::Generations, &name).display(),
            "belongs to no generation that is live or kept",
            APPLY,
        )
    }));
    Ok(())
}

fn missing_keys(
    instance: &QuicLb,
    live: &Live,
    findings: &mut Vec<Finding>,
) -> Result<(), InstanceError> {
    if let Some(count @ 1..) = instance.missing_contexts(live)? {
        findings.push(Finding::new(
            FindingCode::MissingKey,
            instance.dir().path().display(),
            format!("{count} keys have no context: connection IDs under them name no backend"),
            APPLY,
        ));
    }
    Ok(())
}

/// Interfaces and addresses that are no longer those of the generation.
fn drift(instance: &QuicLb, live: &Live, findings: &mut Vec<Finding>) -> Result<(), InstanceError> {
    let world = observe()?;
    let ingress = live.spec().interface();
    let own = [(ingress.as_str(), live.record.ifindex)];
    let placed = || {
        live.placed().flat_map(|(service, record)| {
            let backends = service.backends.iter();
            backends.filter_map(|backend| Some((backend, record.backend(backend.id.get())?)))
        })
    };
    let targets = placed().map(|(backend, placed)| (backend.interface.as_str(), placed.ifindex));
    let published = own.into_iter().chain(targets);
    for check in ifindex_drift(published, &world) {
        if check.result == CheckResult::Error {
            findings.push(Finding::new(
                FindingCode::IfindexDrift,
                check.object,
                check.message,
                check.remedy.unwrap_or_default(),
            ));
        }
    }
    for check in reach(live.spec(), &world) {
        let code = match check.code {
            CheckCode::TargetDown => FindingCode::TargetDown,
            _ => FindingCode::TargetNapi,
        };
        if check.result >= CheckResult::Warning {
            findings.push(Finding::of(code, check));
        }
    }
    let missing = instance.missing_targets(&live.record)?;
    let mut lost = BTreeSet::new();
    let mut changed = BTreeMap::new();
    for (backend, placed) in placed() {
        let device = world.device(&backend.interface);
        // Where the index differs too, that is the matter.
        if device.is_some_and(|device| device.index == placed.ifindex)
            && missing.contains(&placed.ifindex)
        {
            lost.insert(&backend.interface);
        }
        let now = device.and_then(|device| device.mac);
        if let (Some(published), Some(now)) = (placed.source_mac, now) {
            if now.octets() != published {
                changed.insert(&backend.interface, (published, now));
            }
        }
    }
    findings.extend(lost.into_iter().map(|interface| {
        Finding::new(
            FindingCode::LostTarget,
            interface,
            "every frame to it is dropped: it was made again, or its entry removed",
            APPLY,
        )
    }));
    findings.extend(changed.into_iter().map(|(interface, (published, now))| {
        let published = crate::addr::MacAddr::new(published);
        Finding::new(
            FindingCode::SourceMacDrift,
            interface,
            format!("frames are sent from {published}, the interface has {now}"),
            APPLY,
        )
    }));
    Ok(())
}

/// Counters that should not rise.
fn counted(stats: &Stats, findings: &mut Vec<Finding>) {
    let internal = stats.reasons.get(Reason::Internal.name()).copied();
    if let Some(count @ 1..) = internal {
        findings.push(Finding::new(
            FindingCode::Internal,
            Reason::Internal,
            format!("{count} packets met an inconsistency of the program's own data"),
            "report it with the output of this command",
        ));
    }
    for service in &stats.services {
        if let Some(count @ 1..) = service.counters.get("cid_len_mismatch").copied() {
            findings.push(Finding::new(
                FindingCode::CidLengthMismatch,
                &service.name,
                format!("{count} packets with connection IDs of another length"),
                "set short_dcid_len to the length of the servers' connection IDs",
            ));
        }
    }
}

/// Redirected frames that devices count as lost; a target that tells nothing is a finding.
fn lost(live: &Live, findings: &mut Vec<Finding>) -> Result<Lost, InstanceError> {
    let ingress = live.spec().interface();
    let backends = live
        .spec()
        .services()
        .iter()
        .flat_map(|service| &service.backends);
    // What leaves where it came in is transmitted, not redirected.
    let targets = backends
        .map(|backend| &backend.interface)
        .filter(|name| *name != ingress);
    let lost = Lost::ask(ingress, targets)?;
    findings.extend(lost.untold().map(|name| {
        Finding::new(
            FindingCode::NoRedirectErrorsSource,
            name,
            "its driver does not tell how many redirected frames are lost",
            "",
        )
    }));
    Ok(lost)
}

fn services(
    instance: &QuicLb,
    live: &Live,
    stats: Vec<ServiceStats>,
    lost: &Lost,
) -> Result<Vec<ServiceStatus>, InstanceError> {
    let mut stats: BTreeMap<_, _> = stats
        .into_iter()
        .map(|stats| (stats.name.clone(), stats))
        .collect();
    live.placed()
        .map(|(service, record)| {
            let stats = stats.remove(&service.name).unwrap_or_default();
            let table = live.record.table(service.id.get());
            let bases = live.base_slots(service.id);
            let backends = service.backends.iter().filter_map(|backend| {
                let id = backend.id.get();
                let placed = record.backend(id)?;
                let counted = stats.backends.iter().find(|counted| counted.id == id);
                let bound = match instance.maps.bound.get(placed.stats) {
                    Ok(bound) => bound,
                    Err(error) => return Some(Err(error)),
                };
                let entries = BackendEntries {
                    flows: bound.flows.into(),
                    cids: bound.cids.into(),
                };
                Some(Ok(BackendStatus {
                    id,
                    row: placed.row,
                    incarnation: placed.incarnation,
                    interface: backend.interface.clone(),
                    ifindex: placed.ifindex,
                    mac: backend.mac,
                    state: backend.state,
                    weight: backend.weight,
                    server_ids: backend.server_ids.iter().map(ToString::to_string).collect(),
                    slots: table
                        .and_then(|table| table.slots.get(&id))
                        .copied()
                        .unwrap_or(0),
                    base_slots: bases.get(&placed.row).copied().unwrap_or(0),
                    entries: (bound.incarnation == placed.incarnation).then_some(entries),
                    counters: BackendCounters {
                        packets: counted.map_or(0, |counted| counted.packets),
                        bytes: counted.map_or(0, |counted| counted.bytes),
                        redirect_errors: lost.on_the_way_to(&backend.interface),
                    },
                }))
            });
            Ok(ServiceStatus {
                name: service.name.clone(),
                service_id: service.id.get(),
                vip: service.vip,
                port: service.port,
                protocol: service.protocol,
                routing: service.quic.routing,
                tracking: service.tracking,
                table: TableStatus {
                    size: service.maglev_table_size.get(),
                    digest: table.map(|table| table.digest.clone()).unwrap_or_default(),
                },
                backends: backends.collect::<Result<_, _>>()?,
                counters: stats.counters,
                rules: stats.rules,
            })
        })
        .collect()
}
