// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance is attached to one interface in one mode, and asking for another changes nothing.

#[path = "common/netns.rs"]
mod netns;

use guideway::error::ErrorKind;
use guideway::id::InterfaceName;
use guideway::quiclb::{Holder, Loader, Mode, Options, StateRoot, Writer};
use guideway::service::{self, BackendDraft, ServiceDraft, Spec, SpecDraft};
use netns::{ifindex, ip, isolated, veth, xdp_seen_by_ip};

const INSTANCE: &str = "6f1c7f34-5f0a-4d1e-9d55-6a3a1f0f7a11";

fn name(interface: &str) -> InterfaceName {
    interface.parse().expect("a name")
}

/// An instance with a generation, on a machine with two interfaces, attached to neither.
fn published() -> Writer {
    veth("in0", "out0");
    veth("in1", "out1");
    let spec = Spec::new(&SpecDraft {
        services: vec![ServiceDraft {
            backends: vec![BackendDraft::new(1, "in1", "02:00:00:00:01:01")],
            ..ServiceDraft::new("https", "203.0.113.80", 443)
        }],
        ..SpecDraft::new(INSTANCE, "in0")
    })
    .expect("a specification");
    let dir = StateRoot::new(netns::BPFFS).quiclb(spec.instance_id());
    let mut writer = Loader::new(&dir, spec.limits()).load().expect("loaded");
    let plan = writer.plan(&spec, Options::default()).expect("a plan");
    writer.publish(&plan).expect("published");
    writer
}

/// Another interface or mode is refused by name, whatever holds the program, and changes nothing.
fn refuses_others(writer: &mut Writer) {
    let before = writer.attached(&name("in0")).expect("readable");
    for (interface, mode) in [
        ("in1", Mode::Native),
        ("in1", Mode::Generic),
        ("in0", Mode::Generic),
    ] {
        let error = writer.attach(&name(interface), mode).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let text = format!(
            "the program is attached to in0 (index {}) in native mode; detach it before it is \
             attached to {interface} in {mode} mode",
            ifindex("in0")
        );
        assert_eq!(error.to_string(), text);
        assert_eq!(xdp_seen_by_ip("in1"), None);
        let (mode, _) = xdp_seen_by_ip("in0").expect("a program");
        assert_eq!(mode, "native");
        assert_eq!(writer.attached(&name("in0")).expect("readable"), before);
    }
}

#[test]
fn another_interface_or_mode_is_refused_and_changes_nothing() {
    isolated("quiclb_attach::refused", || {
        let mut writer = published();
        let attached = writer.attach(&name("in0"), Mode::Native).expect("attached");
        assert_eq!(attached.mode, Mode::Native);
        refuses_others(&mut writer);
        let again = writer.attach(&name("in0"), Mode::Native).expect("it is");
        assert_eq!(again, attached);

        assert!(writer.detach().expect("detached"));
        let moved = writer.attach(&name("in1"), Mode::Generic).expect("free");
        assert_eq!((moved.ifindex, moved.mode), (ifindex("in1"), Mode::Generic));
    });
}

#[test]
fn another_interface_is_refused_where_no_pinned_link_tells_of_the_first() {
    isolated("quiclb_attach::unlinked", || {
        let mut writer = published();
        let program = std::os::fd::AsFd::as_fd(writer.program())
            .try_clone_to_owned()
            .expect("a descriptor");
        netns::netlink_attach(ifindex("in0"), &program, libbpf_sys::XDP_FLAGS_DRV_MODE)
            .expect("attached");
        let attached = writer.attached(&name("in0")).expect("readable");
        assert_eq!(attached.expect("attached").holder, Holder::Netlink);
        refuses_others(&mut writer);
    });
}

#[test]
fn attached_is_about_the_interface_that_is_named() {
    isolated("quiclb_attach::named", || {
        let mut writer = published();
        let attached = writer.attach(&name("in0"), Mode::Native).expect("attached");
        let asked = |interface: &str| writer.attached(&name(interface)).expect("readable");
        assert_eq!(asked("in0"), Some(attached));
        for other in ["in1", "out0", "none0"] {
            assert_eq!(asked(other), None, "{other}");
        }
    });
}

#[test]
fn a_link_whose_interface_is_gone_is_replaced() {
    isolated("quiclb_attach::gone", || {
        let mut writer = published();
        writer.attach(&name("in0"), Mode::Native).expect("attached");
        ip(&["link", "del", "in0"]);
        assert_eq!(writer.attached(&name("in0")).expect("readable"), None);
        let attached = writer
            .attach(&name("in1"), Mode::Generic)
            .expect("replaced");
        assert_eq!(
            writer.attached(&name("in1")).expect("readable"),
            Some(attached)
        );
    });
}

#[test]
fn the_mode_of_a_specification_is_one_to_attach_in() {
    for (of_spec, expected) in [
        (service::Mode::Native, Mode::Native),
        (service::Mode::Generic, Mode::Generic),
        (service::Mode::Offload, Mode::Hardware),
    ] {
        assert_eq!(Mode::from(of_spec), expected);
        assert_eq!(service::Mode::from(expected), of_spec);
    }
}
