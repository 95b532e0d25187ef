// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A version that the server has forgotten.

use guideway::control::source::{Source, SourceErrorReason};

use crate::server::Server;
use crate::*;

#[test]
#[ignore = "needs an API server: make test-kube"]
fn a_forgotten_version_is_listed_anew() {
    let mut server = Server::start("compacted");
    create(&server, "shard-a", 0x10);
    create(&server, "shard-b", 0x20);
    let source = source(&server);
    until_known(&source, &["shard-a", "shard-b"]);
    server.stop_api();
    until(&source, "it is stale", is_stale);

    // Changes while the source cannot reach the server, and the versions before them forgotten.
    server.start_hidden();
    delete(&server, "shard-a");
    create(&server, "shard-c", 0x30);
    server.compact();
    server.stop_api();
    assert_eq!(candidates(&source.latest()), ["shard-a", "shard-b"]);
    server.start_api();
    until_known(&source, &["shard-b", "shard-c"]);
    assert!(
        source.errors().get(SourceErrorReason::Gone) >= 1,
        "{:?}",
        source.errors()
    );
}
