#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# The rows of $1 (one JSON object a line) as one document, with the machine they were measured on.
set -e
field() { sed -n "s/^$1[[:space:]]*: //p" /proc/cpuinfo | head -n 1 | tr -d '"\\'; }
# What the programs were compiled by, as build.rs chose it.
compiler() {
    # shellcheck disable=SC2012 # names without anything unusual
    ls -t target/release/build/guideway-*/output | head -n 1 |
        xargs sed -n 's/^cargo:rustc-env=GUIDEWAY_COMPILER=//p' | tr -d '"\\'
}
version() { "$@" --version 2>/dev/null | head -n 1 | tr -d '"\\'; }

printf '{"machine": {"cpu": "%s", "cpus": %s, "memory_kib": %s, "kernel": "%s", "rustc": "%s", "clang": "%s", "commit": "%s", "time": "%s"},\n"rows": [\n' \
    "$(field 'model name')" "$(nproc)" "$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)" "$(uname -r)" \
    "$(version rustc)" "$(compiler)" \
    "$(git describe --always --dirty 2>/dev/null || echo unknown)" "$(date -u +%FT%TZ)"
sed '/^$/d; $!s/$/,/' "$1"
printf ']}\n'
