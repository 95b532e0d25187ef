# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
#
# Each target sets the machine up by itself (see .ci/setup.sh). With CI=true nothing is left out:
# what cannot run fails.

SHELL := /bin/bash
.SHELLFLAGS := -e -o pipefail -c
.DELETE_ON_ERROR:
# The targets share one build directory and Cargo runs in parallel by itself.
.NOTPARALLEL:

CARGO ?= cargo
BENCH_ROWS := $(CURDIR)/target/bench-rows.jsonl
TEST_LOG := target/test.log

.PHONY: help demo demo-egress demo-control test test-kube long kernels compilers bench lint fmt clippy doc setup

help:
	@echo 'make demo     real QUIC connections through the load balancer, in network namespaces; then the two below (root)'
	@echo 'make demo-egress   TCP of tenants through SRv6 shards that are added, drained, lost and removed (root)'
	@echo 'make demo-control  the same kept in line by a daemon that reads manifests, loses a shard and is killed (root)'
	@echo 'make test     format, lints, documentation and every test (kernel tests need root)'
	@echo 'make test-kube   the Kubernetes source against a real API server, which the first run builds (Debian 12; half an hour)'
	@echo 'make bench    the benchmarks; writes target/bench.json (root)'
	@echo 'make long     the long forms of tests: floods of millions, ten minutes of races, whole simulations (root)'
	@echo 'make kernels  the kernel tests on Linux 6.1 and 6.12, emulated (root; Debian 12; half an hour)'
	@echo 'make lint     format and clippy only'
	@echo 'make doc      the documentation, warnings are errors'

setup:
	@.ci/setup.sh

# A dev build: it starts a minute sooner than a release build, and the packet path is the kernel's.
demo: setup
	$(CARGO) build --example demo --example demo-egress --example demo-control --example egressd
	@target/debug/examples/demo $(DEMO_ARGS)
	@target/debug/examples/demo-egress $(DEMO_EGRESS_ARGS)
	@target/debug/examples/demo-control $(DEMO_CONTROL_ARGS)

demo-egress: setup
	$(CARGO) build --example demo-egress
	@target/debug/examples/demo-egress $(DEMO_EGRESS_ARGS)

demo-control: setup
	$(CARGO) build --example demo-control --example egressd
	@target/debug/examples/demo-control $(DEMO_CONTROL_ARGS)

# The daemon that knows clusters comes first: the other tests want the one that there is by default,
# and both have one name.
test: setup lint doc
	@mkdir -p target
	@status=0; \
	{ $(CARGO) build --features kube --example egressd && \
	$(CARGO) test --features kube --test control_kube; } 2>&1 | tee $(TEST_LOG) || status=$$?; \
	$(CARGO) test --no-fail-fast 2>&1 | tee -a $(TEST_LOG) || status=$$?; \
	[ $$status != 0 ] || $(MAKE) --no-print-directory compilers || status=$$?; \
	.ci/summary.sh $(TEST_LOG) || status=$$?; \
	exit $$status

# An hour, so not a part of `make test`. Optimised, as simulations and models would take hours.
LONG := affinity_model collector control_model differential egress egress_pins flood group pcc placement sweep
long: setup
	GW_LONG=1 $(CARGO) test --release --no-fail-fast $(LONG:%=--test %) -- --include-ignored

# An API server from Debian's sources: too heavy for every day, so not a part of `make test`. What was
# built is kept below ~/.cache.
test-kube: setup
	@server=$$(tests/kube/build.sh); \
	GUIDEWAY_KUBE_API=$$server $(CARGO) test --features kube --test kube -- --include-ignored --test-threads 2

# Debian's kernels under qemu: too heavy for every day, so not a part of `make test`.
kernels: setup
	@tests/vm/run.sh $(KERNELS)

# The programs built by every other clang that is installed: they load, and decide what the model
# says. The default one is that of a build for which none was named.
compilers: setup
	@mkdir -p target && tested=; \
	env -u GUIDEWAY_CLANG $(CARGO) check -q --lib; \
	default=$$(ls -t target/debug/build/guideway-*/output | head -1 | \
	    xargs sed -n 's/^cargo:rustc-env=GUIDEWAY_COMPILER=//p'); \
	for clang in clang-14 clang-16 clang-19 clang-22; do \
	    if command -v $$clang >/dev/null && [ "$$($$clang --version | head -1)" != "$$default" ]; then \
	        echo "== $$clang =="; tested="$$tested $$clang"; \
	        GUIDEWAY_CLANG=$$clang $(CARGO) test --test kernel_object --test kernel_keys \
	            --test differential --test egress --test egress_pins 2>&1 | tee -a $(TEST_LOG); \
	    fi; \
	done; \
	echo "Compilers tested beside $$default:$${tested:- none, as no other is installed}"

# Each bench binary appends its rows, one JSON object a line, to the file that GW_BENCH_JSON names, and
# fails if something exceeds its limit; the others are measured all the same.
bench: setup
	@mkdir -p target && rm -f $(BENCH_ROWS)
	@status=0; \
	GW_BENCH_JSON=$(BENCH_ROWS) $(CARGO) bench --no-fail-fast || status=$$?; \
	.ci/bench-report.sh $(BENCH_ROWS) >target/bench.json; \
	echo 'target/bench.json: '$$(wc -l <$(BENCH_ROWS))' rows'; \
	exit $$status

lint: fmt clippy

fmt: setup
	@if $(CARGO) fmt --version >/dev/null 2>&1; then set -x; $(CARGO) fmt --check; \
	else .ci/setup.sh --left-out 'cargo fmt (rustfmt is not installed)'; fi

clippy: setup
	@if $(CARGO) clippy --version >/dev/null 2>&1; then set -x; $(CARGO) clippy --all-targets -- -D warnings; \
	$(CARGO) clippy --lib --no-default-features -- -D warnings; \
	$(CARGO) clippy --lib --test control_kube --test kube --example egressd --features kube -- -D warnings; \
	else .ci/setup.sh --left-out 'cargo clippy (clippy is not installed)'; fi

doc: setup
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --no-deps
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --no-deps --lib --features kube
