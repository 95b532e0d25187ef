#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
#
# Runs the tests that need the kernel on other kernels: those that Debian builds, emulated by qemu.
# Nothing of them is installed. Needs Debian 12 or a system that offers the same packages, amd64.
#
#   run.sh [SERIES...]     default: 6.1 6.12
#   GW_VM_TESTS='swap ...' run.sh 6.1      these tests only
#
# Each kernel's whole output is in target/kernels/SERIES/log.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=target/kernels
here=tests/vm
# In the order of their dependencies.
modules='llc stp bridge veth sch_ingress cls_bpf cls_u32'
# What tests run as commands, beside the applets of busybox. Its shell would prefer its own `ip`.
tools='ip tc ethtool flock unshare dash'

main() {
    install_tools
    local root
    root=$(mktemp -d)
    # shellcheck disable=SC2064 # the directory of now
    trap "rm -rf '$root'" EXIT
    # Others than root run programs, too.
    chmod 755 "$root"
    make_root "$root"
    local failed=''
    for series in "${@:-6.1 6.12}"; do
        for series in $series; do
            run "$series" "$root" || failed="$failed $series"
        done
    done
    [ -z "$failed" ] || { echo "Failed on Linux$failed." >&2; exit 1; }
}

install_tools() {
    local packages=''
    command -v qemu-system-x86_64 >/dev/null || packages="$packages qemu-system-x86"
    command -v cpio >/dev/null || packages="$packages cpio"
    command -v xz >/dev/null || packages="$packages xz-utils"
    # The dynamic one, of another package, would not start.
    ldd "$(command -v busybox || echo /bin/sh)" >/dev/null 2>&1 && packages="$packages busybox-static"
    [ -z "$packages" ] && return
    echo "Installing:$packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # one word per package
    apt-get install -qy --no-install-recommends $packages >/dev/null 2>&1 ||
        { apt-get update -q && apt-get install -qy --no-install-recommends $packages; }
}

# Left out unless named: one builds a crate, and emulation is too slow for so many QUIC connections
# within their time-outs.
left_out='downstream demo e2e_keys e2e_preflight e2e_quic'

# Names and binaries of the tests that make namespaces.
tests() {
    cargo test --no-run 2>&1 | tee "$cache/build.log" |
        sed -n 's/^ *Executable \(tests[^ ]*\) (\(.*\))$/\1 \2/p' |
        while read -r source binary; do
            name=${source#tests/} name=${name%.rs} name=${name%/main}
            grep -q 'common/\(netns\|e2e\).rs"' "$source" || continue
            if [ -n "${GW_VM_TESTS:-}" ]; then
                [[ " $GW_VM_TESTS " != *" $name "* ]] || echo "$name $binary"
            else
                [[ " $left_out " == *" $name "* ]] || echo "$name $binary"
            fi
        done
}

# The file system that both kernels start with. Tests look for examples beside their directory.
make_root() {
    mkdir -p "$cache" "$1"/{bin,examples,tests,modules,proc,sys,dev,mnt,run,tmp}
    local name binary
    tests >"$1/list"
    [ -s "$1/list" ] || { cat "$cache/build.log" >&2; exit 1; }
    while read -r name binary; do
        objcopy --strip-debug "$binary" "$1/tests/$name"
    done <"$1/list"
    for name in quickstart quiclb demo; do
        objcopy --strip-debug "target/debug/examples/$name" "$1/examples/$name"
    done
    for name in $tools; do
        cp -L "$(PATH="$PATH:/usr/sbin:/sbin" command -v "$name")" "$1/bin/$name"
    done
    ln -s dash "$1/bin/sh"
    for binary in "$1"/{bin,tests,examples}/*; do
        ldd "$binary" | grep -o '/[^ ]*'
    done | sort -u | grep -v ':$' | xargs cp --parents -Lt "$1"
    cp "$(command -v busybox)" "$1/busybox"
    cp "$here/init" "$1/init"
    env | grep '^GW_' >"$1/env" || true
}

# Fetches the newest kernel of a series, once.
fetch() {
    local directory=$1 series=$2 package module complete=yes
    for module in $modules; do
        [ -e "$directory/modules/$module.ko" ] || complete=no
    done
    [ -e "$directory/vmlinuz" ] && [ $complete = yes ] && return
    newest() {
        apt-cache search --names-only "^linux-image-${series//./\\.}\.[^-]*(-[0-9]+)?-cloud-amd64\$" |
            cut -d' ' -f1 | sort -V | tail -1
    }
    package=$(newest)
    if [ -z "$package" ]; then
        apt-get update -q
        package=$(newest)
    fi
    [ -n "$package" ] || { echo "No package of Linux $series for the cloud is known to apt." >&2; exit 1; }
    rm -rf "$directory" && mkdir -p "$directory"/{package,modules}
    (cd "$directory" && apt-get download -q -o APT::Sandbox::User=root "$package" && dpkg -x ./*.deb package)
    for module in $modules; do
        find "$directory/package" -name "$module.ko*" -exec cp -t "$directory/modules" {} +
    done
    find "$directory/modules" -name '*.xz' -exec xz -d {} +
    mv "$directory"/package/boot/vmlinuz-* "$directory/vmlinuz"
    rm -rf "$directory"/{package,*.deb}
    echo "${package#linux-image-}" >"$directory/version"
}

run() {
    local series=$1 root=$2 directory=$cache/$1 start=$SECONDS
    fetch "$directory" "$series"
    rm -rf "$root/modules" && mkdir "$root/modules"
    local number=0
    for module in $modules; do
        number=$((number + 1))
        cp "$directory/modules/$module.ko" "$root/modules/$number-$module.ko"
    done
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$directory/initrd"
    echo "== Linux $(cat "$directory/version") =="
    # KVM may be missing or broken where this runs; emulation is slower, and works.
    timeout --foreground "${GW_VM_TIMEOUT:-3600}" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 2048 \
        -nodefaults -no-reboot -nographic -serial stdio \
        -kernel "$directory/vmlinuz" -initrd "$directory/initrd" \
        -append 'console=ttyS0 quiet panic=-1' </dev/null >"$directory/log" || true
    sed -i 's/\r$//' "$directory/log"
    rm "$directory/initrd"
    grep '^verifier:' "$directory/log" || true
    .ci/summary.sh "$directory/log" || return
    local ran expected
    ran=$(grep -c '^test result:' "$directory/log")
    expected=$(wc -l <"$root/list")
    echo "Linux $(cat "$directory/version"): $ran of $expected test binaries in $((SECONDS - start)) s"
    [ "$ran" = "$expected" ]
}

main "$@"
exit
