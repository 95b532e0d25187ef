// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The very program, loaded once more for itself: nothing is pinned, nothing attached, and all of
//! it goes away with its handles.

use std::collections::BTreeSet;

use super::TraceError;
use crate::abi;
use crate::kernel::keys::{self, Contexts};
use crate::kernel::object::{Object, Options};
use crate::kernel::program::Program;
use crate::kernel::publish::{Generation as Cells, Slot};
use crate::kernel::run::Run;
use crate::kernel::typed::{Array, DevMap};
use crate::kernel::SysError;
use crate::plan::{Generation, Image, PlacedContext};
use crate::quiclb::live::CELLS;

/// A program of our own and the generation that it sees.
#[derive(Debug)]
pub(super) struct Private {
    cells: Cells,
    targets: BTreeSet<u32>,
    contexts: Vec<PlacedContext>,
    loaded: Loaded,
}

#[derive(Debug)]
struct Loaded {
    /// It keeps all the maps that it uses.
    program: Program,
    note: Array<abi::TraceNote>,
}

impl Private {
    /// Loads the program with its decisions noted, and publishes the generation to it.
    pub(super) fn load(generation: &Generation) -> Result<Self, TraceError> {
        let image = Image::build(generation)?;
        let rows = generation.services.iter().flat_map(|placed| &placed.rows);
        let redirected = rows.flatten().filter(|backend| !backend.transmit);
        let targets = redirected.map(|backend| backend.ifindex).collect();
        // Before the cells: its error says which rights are missing.
        let contexts = generation.contexts.clone();
        let object = object(!contexts.is_empty())?;
        let cells = Cells::create(CELLS, image.bytes().len())?;
        cells.fill(image.bytes())?;
        cells.freeze()?;
        Ok(Self {
            loaded: Loaded::publish(object, &cells, &targets, &contexts)?,
            cells,
            targets,
            contexts,
        })
    }

    /// Starts again with a program that has not seen a frame.
    pub(super) fn reset(&mut self) -> Result<(), TraceError> {
        let object = object(!self.contexts.is_empty())?;
        self.loaded = Loaded::publish(object, &self.cells, &self.targets, &self.contexts)?;
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

fn object(keys: bool) -> Result<Object, TraceError> {
    let options = Options {
        tracing: true,
        keys,
        // The frames of a capture that give an entry are few.
        entries: &[("gw_ql_flow", 1 << 16), ("gw_ql_cid", 1 << 16)],
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
        Slot::new(object.take_map("gw_ql_gen")?)?.swap(cells)?;
        Ok(Self {
            note: Array::new(object.take_map("gw_ql_trace")?)?,
            program: object.program,
        })
    }
}
