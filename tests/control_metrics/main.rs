// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the control loop exports: each metric, what makes it change, and the text.

#[path = "../common/netns.rs"]
mod netns;
#[path = "strict.rs"]
mod strict;
#[path = "../egress_instance/support.rs"]
#[allow(dead_code)] // a part of it is used
mod support;
#[path = "../common/udp6.rs"]
mod udp6;

mod groups;
mod kernel;
mod of_a_round;
mod of_the_loop;
mod of_the_maps;
mod table;
