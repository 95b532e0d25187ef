// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maglev tables, against published vectors and against a direct transcription of the rules.

mod controls;
mod diffs;
mod equivalence;
mod errors;
mod lookup;
mod properties;
mod reference;
mod shares;
mod sizes;
mod strategies;
mod support;
mod time;
mod vectors;
