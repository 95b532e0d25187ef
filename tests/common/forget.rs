// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A live generation that remembers nothing: what an instance would be without flow state.

use std::sync::Arc;
use std::time::Duration;

use guideway::abi;
use guideway::error::ErrorKind;
use guideway::kernel::map::Map;
use guideway::kernel::publish::{Generation, Slot};
use guideway::kernel::statedir::Section;
use guideway::plan::Image;
use guideway::quiclb::{Options, Spec, StateDir, StateRoot, Writer};
use serde_json::Value;

use super::net::Namespace;

const CELLS: &str = "gw_ql_cells";
const PLAIN: u16 = abi::SlotWord::GW_SLOT_PLAIN.0 as u16;

/// Replaces the live generation by one of the same number, backends and owners whose slots are all
/// plain. `document` is its specification with services that look at no entry in plain slots.
pub(crate) fn forget(balancer: &Namespace, document: &Value) {
    let spec = Spec::from_json(document.to_string().as_bytes()).expect("a specification");
    balancer.run(|| replace(spec)).expect("a thread");
}

fn replace(spec: Spec) {
    let dir = StateRoot::default().quiclb(spec.instance_id());
    // Against whoever collects.
    let writer = lock(&dir);
    let live = writer
        .live_record()
        .expect("a record")
        .expect("a generation");
    let plan = writer
        .plan(live.spec(), Options::default())
        .expect("a plan");
    let mut generation = plan.generation().clone();
    generation.number = live.number();
    generation.spec = Arc::new(spec);
    for placed in &mut generation.services {
        placed.exact = false;
        let plain = |word: &abi::Slot| abi::Slot {
            base: PLAIN,
            ..*word
        };
        placed.slots = placed.slots.iter().map(plain).collect();
    }
    let image = Image::build(&generation).expect("an image");
    let pin = dir.pin(Section::Generations, &format!("{}-cells", live.number()));
    let before = Generation::open(&pin, CELLS).expect("the live generation");
    let room = before.map().shape().max_entries;
    let cells = Generation::with_room(CELLS, room, image.bytes().len()).expect("cells");
    cells.fill(image.bytes()).expect("filled");
    cells.freeze().expect("frozen");
    std::fs::remove_file(&pin).expect("unpinned");
    cells.map().pin(&pin).expect("pinned");
    let slot = Map::open_any(&dir.pin(Section::Maps, "gw_ql_gen")).expect("the slot");
    Slot::new(slot)
        .expect("a slot")
        .swap(&cells)
        .expect("swapped");
}

fn lock(dir: &StateDir) -> Writer {
    for _ in 0..200 {
        match Writer::open(dir) {
            Ok(writer) => return writer,
            Err(error) if error.kind() == ErrorKind::Locked => {
                std::thread::sleep(Duration::from_millis(50))
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("locked for ten seconds");
}
