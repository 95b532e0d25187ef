// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What `egressd run` offers to others: scrapes and probes over HTTP, and words to the service manager.

#[path = "../../examples/egressd/run/http.rs"]
mod http;
// With tests of their own.
#[allow(dead_code)] // what the daemon alone says
#[path = "../../examples/egressd/run/log.rs"]
mod log;
#[path = "../../examples/egressd/run/notify.rs"]
mod notify;

mod clients;
mod requests;
