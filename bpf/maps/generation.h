/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The live generation, for every program that reads it. */
#ifndef GW_MAPS_GENERATION_H
#define GW_MAPS_GENERATION_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

/*
 * Template of a generation: an array of cells. Sizes only, no types: before clang 21 a type used
 * in an inner definition alone becomes a forward declaration that libbpf refuses, and Linux 6.1
 * refuses a published map without BTF where the template has it. All generations of an instance
 * have room for the same number of cells, set before loading: with BPF_F_INNER_MAP each could have
 * its own, but then the kernel calls a function for each look-up instead of compiling it into the
 * program, and a packet needs four.
 */
struct gw_ql_cells {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, GW_CELL_BYTES);
	__uint(max_entries, GW_GENERATION_CELLS);
	__uint(map_flags, BPF_F_RDONLY_PROG);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(key_size, sizeof(__u32));
	__uint(max_entries, 1);
	__array(values, struct gw_ql_cells);
} gw_ql_gen SEC(".maps");

#endif
