// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Contexts of the kernel's cipher, and the program that decrypts with them.

#[path = "common/netns.rs"]
mod netns;

use guideway::error::ErrorKind;
use guideway::kernel::keys::{self, Contexts, Support};
use guideway::kernel::object::Options;
use guideway::kernel::probe;
use netns::{isolated, require_keys};

fn contexts() -> Contexts {
    let options = Options {
        keys: true,
        ..Options::default()
    };
    let mut object = options.load().expect("load");
    Contexts::new(object.take_map(keys::MAP).expect("a map")).expect("its shape")
}

#[test]
fn what_is_said_of_this_machine_is_so() {
    isolated("kernel_keys::support", || {
        let clang = keys::COMPILER;
        assert!(clang.contains("clang"), "{clang}");
        // Of the compilers that are tested, 14 alone cannot.
        assert_eq!(keys::BUILT, !clang.contains(" 14."), "{clang}");
        let built = keys::BUILT;
        match keys::support() {
            Support::Works => assert!(built && probe::release().at_least(6, 11)),
            Support::NotBuilt => assert!(!built),
            Support::Missing(what) => assert!(!what.is_empty() && built),
            other => panic!("{other:?}, with all rights"),
        }
    });
}

#[test]
fn a_program_that_decrypts_is_refused_where_there_is_none() {
    let options = Options {
        keys: true,
        ..Options::default()
    };
    let built = keys::BUILT;
    match options.shapes() {
        Ok(shapes) => assert!(built && shapes.contains_key(keys::MAP)),
        Err(error) => {
            assert!(!built);
            assert!(
                error.to_string().contains("no program that decrypts"),
                "{error}"
            );
        }
    }
    let plain = Options::default().shapes().expect("shapes");
    assert!(!plain.contains_key(keys::MAP));
}

#[test]
fn the_program_with_keys_is_the_other_and_more() {
    isolated("kernel_keys::program", || {
        if !require_keys("kernel_keys::program") {
            return;
        }
        let load = |keys| {
            let options = Options {
                keys,
                ..Options::default()
            };
            options.load().expect("load")
        };
        let (plain, keyed) = (load(false), load(true));
        assert_eq!(plain.program.name(), keyed.program.name());
        assert_ne!(plain.program.tag(), keyed.program.tag());
        println!(
            "verifier: {} and {}",
            plain.program.verified_instructions(),
            keyed.program.verified_instructions()
        );
        let pinned = plain
            .maps()
            .filter(|map| map.shape().name.starts_with("gw_ql_"));
        for map in pinned {
            let name = &map.shape().name;
            let other = keyed.maps().find(|other| other.shape().name == *name);
            let Some(other) = other else { panic!("{name}") };
            assert_eq!(map.shape(), other.shape());
        }
    });
}

#[test]
fn contexts_are_made_replaced_and_given_up() {
    isolated("kernel_keys::contexts", || {
        if !require_keys("kernel_keys::contexts") {
            return;
        }
        let contexts = contexts();
        let slots = contexts.map().shape().max_entries;
        assert_eq!(
            contexts.incarnations().expect("read"),
            vec![0; slots as usize]
        );
        let maker = contexts.maker().expect("a maker");
        maker.put(0, 7, &[1; 16]).expect("the first slot");
        maker.put(slots - 1, 8, &[2; 16]).expect("the last slot");
        maker.put(0, 9, &[3; 16]).expect("the first again");
        let error = maker.put(slots, 10, &[4; 16]).expect_err("no slot");
        assert_eq!(
            (error.errno, error.kind()),
            (nix::libc::EINVAL, ErrorKind::Kernel)
        );

        let mut expected = vec![0; slots as usize];
        (expected[0], expected[slots as usize - 1]) = (9, 8);
        assert_eq!(contexts.incarnations().expect("read"), expected);
        contexts.remove(0).expect("remove");
        contexts.remove(0).expect("remove what is not there");
        expected[0] = 0;
        assert_eq!(contexts.incarnations().expect("read"), expected);
    });
}
