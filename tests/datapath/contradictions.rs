// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Generations that contradict themselves, which no publisher makes: the packet is aborted and
//! counted, never sent anywhere by what happens to stand there.

use guideway::abi;
use guideway::plan::Image;
use guideway::reason::Reason;

use crate::build::*;
use crate::generations::{document, READY};
use crate::machine::Machine;
use crate::netns::isolated;

const ABORTED: u32 = 0;
const REDIRECT: u32 = 4;

struct Cells(Vec<u8>);

impl Cells {
    fn header(&mut self) -> &mut abi::Generation {
        bytemuck::from_bytes_mut(&mut self.0[..size_of::<abi::Generation>()])
    }

    /// The directory's entries, wherever they lie.
    fn services(&mut self) -> impl Iterator<Item = &mut abi::Service> {
        let header = *self.header();
        let from = header.directory_at as usize * Image::CELL_BYTES;
        let cells = header.directory_mask as usize + 1;
        self.0[from..][..cells * Image::CELL_BYTES]
            .chunks_mut(Image::CELL_BYTES)
            .map(|cell| bytemuck::from_bytes_mut(&mut cell[..size_of::<abi::Service>()]))
            .filter(|service: &&mut abi::Service| service.key.family != 0)
    }
}

#[test]
fn a_contradiction_aborts_the_packet_and_is_counted() {
    isolated("datapath::contradictions", || {
        let machine = Machine::new();
        let sound = Image::build(&machine.plan(&document())).unwrap();
        let mut short = vec![0x40];
        short.extend(READY);
        short.extend([0; 20]);
        let by_id = ipv4(UDP, &udp(50000, 443, &short));
        let by_flow = ipv4(TCP, &tcp(50000, 8080, 2));
        type Change = fn(&mut Cells);
        let changes: [(&str, &[u8], Change); 7] = [
            ("magic", &by_flow, |cells| cells.header().magic ^= 1),
            ("directory", &by_flow, |cells| {
                cells.header().directory_at = 1 << 24;
            }),
            ("slots", &by_flow, |cells| {
                cells
                    .services()
                    .for_each(|service| service.slots_at = 1 << 24);
            }),
            ("backends", &by_flow, |cells| {
                cells
                    .services()
                    .for_each(|service| service.backends_at = 1 << 24);
            }),
            ("rows", &by_flow, |cells| {
                cells.services().for_each(|service| service.backends = 0);
            }),
            ("rows of server IDs", &by_id, |cells| {
                cells.services().for_each(|service| service.backends = 0);
            }),
            ("server IDs", &by_id, |cells| {
                cells
                    .services()
                    .for_each(|service| service.server_ids_at = 1 << 24);
            }),
        ];
        for (what, frame, change) in changes {
            machine.publish_bytes(sound.bytes());
            assert_eq!(
                machine.run(frame).action,
                REDIRECT,
                "{what}, as it should be"
            );
            let mut cells = Cells(sound.bytes().to_vec());
            change(&mut cells);
            machine.publish_bytes(&cells.0);
            let before = machine.reasons()[usize::from(Reason::Internal.number())];
            let ran = machine.run(frame);
            assert_eq!((ran.action, &ran.frame[..]), (ABORTED, frame), "{what}");
            let after = machine.reasons()[usize::from(Reason::Internal.number())];
            assert_eq!(after, before + 1, "{what}");
        }
    });
}

/// A counter that does not exist changes nothing but the numbers.
#[test]
fn a_missing_counter_changes_no_verdict() {
    isolated("datapath::missing_counters", || {
        let machine = Machine::new();
        let sound = Image::build(&machine.plan(&document())).unwrap();
        let mut cells = Cells(sound.bytes().to_vec());
        cells
            .services()
            .for_each(|service| service.stats = abi::Index::GW_INDEX_NONE.0);
        machine.publish_bytes(&cells.0);
        let ran = machine.run(&ipv4(TCP, &tcp(50000, 8080, 2)));
        assert_eq!(ran.action, REDIRECT);
        assert_eq!(ran.frame[..6], [2, 0, 0, 0, 4, 1]);
    });
}
