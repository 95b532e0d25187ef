#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# The closing lines of every test binary in the log $1, and their sum.
set -e
echo
echo "== test results =="
awk '
    / Running (unittests |tests\/|benches\/|examples\/)/ { sub(/ \(.*/, ""); sub(/^ *Running (unittests )?/, ""); name = $0 }
    / Doc-tests / { name = "doc tests" }
    /^test result:/ { printf "%-32s %s\n", name, $0; passed += $4; failed += $6; ignored += $8; binaries++ }
    /^SKIPPED/ { skipped[++skips] = $0 }
    END {
        for (i = 1; i <= skips; i++) print skipped[i]
        printf "test result: %s. %d passed; %d failed; %d ignored; %d skipped in %d binaries\n",
            failed ? "FAILED" : "ok", passed, failed, ignored, skips, binaries
        exit failed || !binaries
    }' "$1"
