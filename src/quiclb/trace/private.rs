// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The very program, loaded once more for itself: nothing is pinned, nothing attached, and all of
//! it goes away with its handles.

use std::collections::BTreeSet;

use super::bindings::Imported;
use super::TraceError;
use crate::abi;
use crate::kernel::clock;
use crate::kernel::keys::{self, Contexts};
use crate::kernel::map::Update;
use crate::kernel::object::{Object, Options};
use crate::kernel::program::Program;
use crate::kernel::publish::{Generation as Cells, Slot};
use crate::kernel::run::Run;
use crate::kernel::typed::{Array, DevMap, Hash};
use crate::kernel::SysError;
use crate::plan::{Generation, Image, PlacedContext};
use crate::quiclb::live::CELLS;

/// Entries that frames may make of each kind: those of a capture that make one are few.
const ENTRIES: u32 = 1 << 16;
/// The secret of the tags of connection IDs: nobody has set one.
const CID_SEED: u64 = 0;

/// A program of our own and the generation that it sees.
#[derive(Debug)]
pub(super) struct Private {
    cells: Cells,
    targets: BTreeSet<u32>,
    contexts: Vec<PlacedContext>,
    bindings: Vec<(abi::CidKey, abi::Binding)>,
    loaded: Loaded,
}

#[derive(Debug)]
struct Loaded {
    /// It keeps all the maps that it uses.
    program: Program,
    note: Array<abi::TraceNote>,
}

impl Private {
    /// Loads the program with its decisions noted, and publishes the generation to it; packets find
    /// what was imported.
    pub(super) fn load(
        generation: &Generation,
        imported: Option<&Imported>,
    ) -> Result<Self, TraceError> {
        let image = Image::build(generation)?;
        let rows = generation.services.iter().flat_map(|placed| &placed.rows);
        let redirected = rows.flatten().filter(|backend| !backend.transmit);
        let targets = redirected.map(|backend| backend.ifindex).collect();
        // Before the cells: its error says which rights are missing.
        let contexts = generation.contexts.clone();
        let now_ns = clock::monotonic_coarse_ns();
        let bindings: Vec<_> = imported
            .iter()
            .flat_map(|imported| imported.entries(CID_SEED, now_ns))
            .collect();
        let object = object(!contexts.is_empty(), bindings.len())?;
        let cells = Cells::create(CELLS, image.bytes().len())?;
        cells.fill(image.bytes())?;
        cells.freeze()?;
        Ok(Self {
            loaded: Loaded::publish(object, &cells, &targets, &contexts, &bindings)?,
            cells,
            targets,
            contexts,
            bindings,
        })
    }

    /// Starts again with a program that has not seen a frame.
    pub(super) fn reset(&mut self) -> Result<(), TraceError> {
        let object = object(!self.contexts.is_empty(), self.bindings.len())?;
        self.loaded = Loaded::publish(
            object,
            &self.cells,
            &self.targets,
            &self.contexts,
            &self.bindings,
        )?;
        Ok(())
    }

    pub(super) fn program(&self) -> &Program {
        &self.loaded.program
    }

    /// Runs the program once, leaves the frame in `output`, and gives the return value.
    pub(super) fn run(&self, frame: &[u8], output: &mut Vec<u8>) -> Result<u32, SysError> {
        let (action, _) = Run::new(frame).run_into(&self.loaded.program, output)?;
        Ok(action)
    }

    /// What the program noted last.
    pub(super) fn note(&self) -> Result<abi::TraceNote, SysError> {
        self.loaded.note.get(0)
    }
}

fn object(keys: bool, bindings: usize) -> Result<Object, TraceError> {
    let bindings = u32::try_from(bindings).unwrap_or(u32::MAX);
    let options = Options {
        tracing: true,
        keys,
        entries: &[
            ("gw_ql_flow", ENTRIES),
            ("gw_ql_cid", ENTRIES.saturating_add(bindings)),
        ],
        ..Options::default()
    };
    Ok(options.load()?)
}

impl Loaded {
    fn publish(
        mut object: Object,
        cells: &Cells,
        targets: &BTreeSet<u32>,
        contexts: &[PlacedContext],
        bindings: &[(abi::CidKey, abi::Binding)],
    ) -> Result<Self, TraceError> {
        let map = DevMap::new(object.take_map("gw_ql_dev")?)?;
        targets
            .iter()
            .try_for_each(|ifindex| map.stand_in(*ifindex))?;
        if !contexts.is_empty() {
            let maker = Contexts::new(object.take_map(keys::MAP)?)?.maker()?;
            for context in contexts {
                let key = context.key.secret_bytes();
                maker.put(context.slot, context.incarnation, key)?;
            }
        }
        let cids = Hash::new(object.take_map("gw_ql_cid")?)?;
        for (key, binding) in bindings {
            cids.update(key, binding, Update::Insert)?;
        }
        Slot::new(object.take_map("gw_ql_gen")?)?.swap(cells)?;
        Ok(Self {
            note: Array::new(object.take_map("gw_ql_trace")?)?,
            program: object.program,
        })
    }
}
