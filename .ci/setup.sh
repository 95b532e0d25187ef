#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
#
# Makes this machine ready to build and run the project: installs missing packages where it can
# (Debian or Ubuntu, as root), otherwise lists exactly what is missing; mounts the BPF file system.
#
#   setup.sh                   set up
#   setup.sh --left-out WHAT   say loudly that WHAT is not run here; with CI=true that is a failure
set -euo pipefail

if [ "${1:-}" = --left-out ]; then
    echo "!!! NOT RUN: $2" >&2
    [ "${CI:-}" != true ]
    exit
fi

missing_packages() {
    # A compiler under another name is named by GUIDEWAY_CLANG, see build.rs.
    has "${GUIDEWAY_CLANG:-clang}" || ls /usr/bin/clang-[0-9]* >/dev/null 2>&1 || echo clang
    has_header libelf.h || echo libelf-dev
    has_header zlib.h || echo zlib1g-dev
    has pkg-config || echo pkg-config
    has make || echo make
    has gcc || echo gcc
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    has ip || echo iproute2
    has ethtool || echo ethtool
}

# Whether some clang can compile the programs that decrypt server IDs, see build.rs.
compiles_keys() {
    local clang major
    for clang in ${GUIDEWAY_CLANG:-clang $(compgen -G '/usr/bin/clang-[0-9][0-9]' || true)}; do
        major=$("$clang" -dM -E -x c /dev/null 2>/dev/null | awk '$2 == "__clang_major__" { print $3 }')
        [ "${major:-0}" -ge 15 ] && return
    done
    return 1
}

has() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1
}

has_header() {
    [ -e "/usr/include/$1" ] || compgen -G "/usr/include/*/$1" >/dev/null
}

if ! has cargo; then
    echo "Missing: Rust 1.85 or newer with Cargo in PATH (https://rustup.rs)." >&2
    exit 1
fi

packages=$(missing_packages | tr '\n' ' ')
if [ -n "$packages" ]; then
    if [ "$(id -u)" = 0 ] && has apt-get; then
        echo "Installing: $packages"
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086 # one word per package
        apt-get install -y --no-install-recommends $packages >/dev/null 2>&1 ||
            { apt-get update -q && apt-get install -y --no-install-recommends $packages; }
    fi
    packages=$(missing_packages | tr '\n' ' ')
    if [ -n "$packages" ]; then
        echo "Missing: $packages(names of Debian and Ubuntu)." >&2
        echo "As root: apt-get install $packages" >&2
        exit 1
    fi
fi

# Nothing else needs it: without, specifications with keys are refused, and tests of them left out.
if [ -z "${GUIDEWAY_CLANG:-}" ] && ! compiles_keys && [ "$(id -u)" = 0 ] && has apt-get; then
    echo 'Installing: clang-16'
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends clang-16 >/dev/null 2>&1 ||
        { apt-get update -q && apt-get install -y --no-install-recommends clang-16; } >/dev/null 2>&1 ||
        echo 'Not available: clang-16 (or any from 15 on), for encrypted server IDs.' >&2
fi

# Nothing else needs it: without, the unit of egressd is not verified, nor tried what it restricts.
if ! has systemd-analyze && [ "$(id -u)" = 0 ] && has apt-get; then
    echo 'Installing: systemd'
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends systemd >/dev/null 2>&1 ||
        { apt-get update -q && apt-get install -y --no-install-recommends systemd; } >/dev/null 2>&1 ||
        echo 'Not available: systemd (systemd-analyze), for tests of the unit.' >&2
fi

# Only a toolchain with these components can run the lints; without rustup they are left out later.
for component in rustfmt clippy; do
    name=${component/clippy/clippy-driver}
    if has rustup && ! "$name" --version >/dev/null 2>&1; then
        rustup component add "$component" >/dev/null 2>&1 || true
    fi
done

# The kernel keeps loaded programs and maps by name on this file system.
if [ "$(id -u)" = 0 ] && ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
    mount -t bpf bpf /sys/fs/bpf ||
        { echo "Cannot mount the BPF file system: mount -t bpf bpf /sys/fs/bpf" >&2; exit 1; }
fi
