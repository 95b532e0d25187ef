#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
#
# Builds a Kubernetes API server, with RBAC, from Debian 12's source package, and prints the
# directory that holds it. What is there already is not built again: the first run takes some
# minutes and 2 GB, the others nothing.
#
#   build.sh [CACHE]     default: $XDG_CACHE_HOME or ~/.cache, then guideway/kube
set -euo pipefail

cache=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/guideway/kube}
server=$cache/kube-apiserver
go=/usr/lib/go-1.19/bin/go
say() { echo "kube: $*" >&2; }

packages=()
[ -x $go ] || packages+=(golang-1.19-go)
command -v etcd >/dev/null || packages+=(etcd-server)
command -v dpkg-source >/dev/null || packages+=(dpkg-dev)
if [ ${#packages[@]} != 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        say "missing; as root: apt-get install ${packages[*]}"
        exit 1
    fi
    say "installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends "${packages[@]}" >/dev/null 2>&1 ||
        { apt-get update -q && apt-get install -y --no-install-recommends "${packages[@]}"; } >&2
fi

if [ -x "$server" ]; then
    echo "$cache"
    exit
fi
mkdir -p "$cache/apt/lists/partial"
cd "$cache"

# Package lists of its own: the machine's need not have source packages, and are left alone.
echo 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main' >apt/sources.list
apt() {
    apt-get -q -o Dir::Etc::SourceList="$cache/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$cache/apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User="$(id -un)" "$@" >&2
}
say 'fetching the sources'
apt update
rm -rf source && mkdir source
(
    cd source
    apt source --download-only kubernetes
    dpkg-source --no-check -x kubernetes_*.dsc kubernetes >&2
    # Its own reflect2 is older than Go 1.18 and makes the server crash.
    apt download golang-github-modern-go-reflect2-dev
    dpkg-deb -x golang-github-modern-go-reflect2-dev_*.deb reflect2
)

tree=$cache/gopath/src/k8s.io
rm -rf "$cache/gopath" && mkdir -p "$tree"
mv source/kubernetes "$tree/kubernetes"
cd "$tree/kubernetes"
rm -rf vendor/github.com/modern-go/reflect2
mv "$cache/source/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2" vendor/github.com/modern-go/
rm -rf "$cache/source"

export GO111MODULE=off GOFLAGS='' GOPATH="$cache/gopath" GOCACHE="$cache/gocache" CGO_ENABLED=0

# What `make gen_openapi` would do with tools and time of its own.
say 'generating the OpenAPI definitions'
$go build -o "$cache/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
tagged=$(find -L pkg cmd plugin vendor/k8s.io -name '*.go' -not -path '*/testdata/*' \
    -not -path 'vendor/k8s.io/code-generator/*' -not -path 'vendor/k8s.io/sample-apiserver/*' \
    -exec grep -l -e '+k8s:openapi-gen=' {} + | xargs -n1 dirname | LC_ALL=C sort -u |
    sed 's,^,k8s.io/kubernetes/,' | paste -sd,)
"$cache/openapi-gen" --logtostderr -i "$tagged" -p k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
    -r "$cache/openapi-violations" >&2

say 'building kube-apiserver'
version=k8s.io/kubernetes/vendor/k8s.io/component-base/version
$go build -o "$server.new" -ldflags "-s -w -X $version.gitVersion=v1.20.2 -X $version.gitMajor=1 -X $version.gitMinor=20" \
    ./cmd/kube-apiserver
mv "$server.new" "$server"
# The sources and objects serve no more.
chmod -R u+w "$cache/gopath" && rm -rf "$cache/gopath" "$cache/gocache" "$cache/openapi-gen" "$cache/apt"
echo "$cache"
