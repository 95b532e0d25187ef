// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes that carry another beginning of the hash than they should.

use bytemuck::bytes_of;
use guideway::abi;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::statedir::Section;
use guideway::route::{Key, TableId};

use crate::netns::isolated;
use crate::scene::*;
use crate::support::*;

#[test]
fn a_route_that_hashes_otherwise_is_told_of_and_followed() {
    isolated("egress_explain::states", || {
        let scene = scene();
        let frame = frame(&source6(7).to_string(), "2001:4860::1");
        let explain = || {
            scene
                .writer
                .explain(&frame, scene.inside)
                .expect("explained")
        };
        let before = explain();
        let states = before.route.expect("a route").states.expect("of a group");
        assert!(states.agree, "{states:?}");
        // Computed by hand: FNV-1a over table 42, family 0 and seven zeros.
        assert_eq!(states.fnv5.expected, 0xa982_960d);
        assert_eq!(states.fnv12.expected, 0x9746_cabf);
        let hash = before.hash.expect("a hash");

        let key = Key::new(TableId::new(TABLE), prefix("::/0")).to_row();
        let routes = Map::open_any(&dir().pin(Section::Maps, "gw_routes")).expect("a map");
        let mut row: abi::Route = bytemuck::Zeroable::zeroed();
        let found = routes.lookup(bytes_of(&key), bytemuck::bytes_of_mut(&mut row));
        assert!(found.expect("read"));
        row.fnv12 ^= 0x100;
        let put = routes.update(bytes_of(&key), bytes_of(&row), Update::Any);
        put.expect("room");

        let after = explain();
        let states = after.route.expect("a route").states.expect("of a group");
        assert!(!states.agree);
        assert_eq!(states.fnv5.carried, states.fnv5.expected);
        assert_eq!(states.fnv12.carried, 0x9746_cabf ^ 0x100);
        // As the program, it goes by what is there.
        assert_ne!(after.hash.expect("a hash"), hash);
        let shard = shard_of(
            &scene.writer,
            scene.inside,
            &source6(7).to_string(),
            "2001:4860::1",
        );
        let member = after.member.expect("a member").sid.address().segments()[3];
        assert_eq!(shard, Some(member));
    });
}
