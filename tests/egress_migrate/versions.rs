// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! State of other versions, damaged state, and what is not ours at our paths: left as it is.

use std::fs;

use guideway::egress::{Egress, Loader};
use guideway::error::ErrorKind;
use guideway::kernel::map::{Map, MapKind, MapShape, Update};
use guideway::kernel::statedir::{Section, EGRESS_META_MAP};

use crate::netns::isolated;
use crate::scene::*;
use crate::support::*;

/// Puts another meta map in the place of the one that is there.
fn forge(change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir().pin(Section::Maps, EGRESS_META_MAP);
    let meta = Map::open_any(&path).expect("a map");
    let mut bytes = vec![0; meta.value_bytes()];
    meta.lookup(&[0; 4], &mut bytes).expect("readable");
    change(&mut bytes);
    let forged = Map::create(meta.shape(), None).expect("a map");
    forged
        .update(&[0; 4], &bytes, Update::Any)
        .expect("written");
    forged.freeze().expect("frozen");
    fs::remove_file(&path).expect("removed");
    forged.pin(&path).expect("pinned");
}

/// Everybody refuses the state with an error of this kind that says this, and leaves it as it is.
fn refused(kind: ErrorKind, text: &str) {
    let objects = pinned();
    let errors = [
        Egress::open(&dir()).map(drop),
        Loader::new(&dir()).load().map(drop),
        Loader::new(&dir()).open().map(drop),
    ];
    let errors = errors.map(|result| result.expect_err(text));
    let migrate = Loader::new(&dir()).limits(large()).migrate();
    let migrate = migrate.expect_err(text);
    let plan = Loader::new(&dir()).limits(large()).plan_migration();
    let plan = plan.expect_err(text);
    let texts = errors.iter().map(|error| (error.kind(), error.to_string()));
    let others = [&migrate, &plan].map(|error| (error.kind(), error.to_string()));
    for (found, message) in texts.chain(others) {
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(text), "{message}, not {text}");
    }
    assert_eq!(pinned(), objects);
}

#[test]
fn state_of_another_version_or_with_a_byte_flipped_is_refused_and_left() {
    isolated("egress_migrate::versions", || {
        let scene = scene(small(), loopback());
        let shards = shards_of(&scene);
        let cases: [(usize, u8, &str); 6] = [
            // The magic number, the major and the minor version, the instance, tenants, the table.
            (0, 0x01, "it begins with"),
            (4, 0x80, "this library understands"),
            (6, 0x80, "this library understands"),
            (8, 0x01, "it belongs to instance"),
            (27, 0x80, "limits that do not exist"),
            (40, 0x01, "limits that do not exist"),
        ];
        for (at, flip, text) in cases {
            forge(|bytes| bytes[at] ^= flip);
            refused(ErrorKind::Incompatible, text);
            forge(|bytes| bytes[at] ^= flip);
        }
        whole(&scene, &shards);
        // The limits are those of no map that is there.
        forge(|bytes| bytes[44] ^= 1);
        refused(ErrorKind::Incompatible, "number of entries");
        forge(|bytes| bytes[44] ^= 1);
        // Of another network namespace.
        forge(|bytes| bytes[56] ^= 1);
        refused(ErrorKind::Conflict, "another network namespace");
        forge(|bytes| bytes[56] ^= 1);
        whole(&scene, &shards);
    });
}

#[test]
fn a_foreign_map_or_program_at_one_of_our_paths_is_refused_and_left() {
    isolated("egress_migrate::foreign", || {
        let _scene = scene(small(), loopback());
        for name in [EGRESS_META_MAP, "gw_pins", "gw_routes", "gw_eg_stat"] {
            let path = dir().pin(Section::Maps, name);
            let away = dir().pin(Section::Maps, "away");
            fs::rename(&path, &away).expect("renamed");
            let shape = MapShape {
                name: "somebody".into(),
                kind: MapKind::HASH,
                key_size: 4,
                value_size: 4,
                max_entries: 1,
                flags: 0,
            };
            let foreign = Map::create(&shape, None).expect("a map");
            foreign.pin(&path).expect("pinned");
            let text = match name {
                EGRESS_META_MAP => "it is a hash with another layout",
                _ => "is another map",
            };
            refused(ErrorKind::Incompatible, text);
            // A program is no map, either.
            fs::remove_file(&path).expect("removed");
            let program = dir().pin(Section::Programs, "gw_egress");
            fs::rename(&program, &path).expect("renamed");
            refused(ErrorKind::Incompatible, "");
            fs::rename(&path, &program).expect("renamed");
            fs::rename(&away, &path).expect("renamed");
        }
        drop(load());
    });
}
