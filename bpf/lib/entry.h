/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words of an entry of flow state: other CPUs read and exchange them at any time. */
#ifndef GW_LIB_ENTRY_H
#define GW_LIB_ENTRY_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

/* The first word of an entry. */
union gw_bind {
	__u64 word;
	struct {
		__u16 tag;
		__u16 row;
		__u32 incarnation;
	};
};

/* The last one. */
union gw_tail {
	__u64 word;
	struct {
		__u32 state;
		__u32 hash;
	};
};

/* A word, where the compiler may not take it for something else than its parts. */
typedef __u64 __attribute__((may_alias)) gw_entry_word;

/* In one load, so that the parts belong together. */
static __always_inline union gw_bind gw_load_bind(const struct gw_binding *entry)
{
	return (union gw_bind){ .word = *(const volatile gw_entry_word *)entry };
}

static __always_inline __u64 gw_load_seen_ns(const struct gw_binding *entry)
{
	return *(const volatile __u64 *)&entry->seen_ns;
}

static __always_inline __u32 gw_load_state(const struct gw_binding *entry)
{
	return *(const volatile __u32 *)&entry->state;
}

static __always_inline __u32 gw_load_hash(const struct gw_binding *entry)
{
	return *(const volatile __u32 *)&entry->hash;
}

/* What stood there; it was exchanged if that is what was expected. */
static __always_inline __u64 gw_exchange_bind(struct gw_binding *entry, __u64 expected, __u64 bind)
{
	return __sync_val_compare_and_swap((gw_entry_word *)entry, expected, bind);
}

static __always_inline __u32 gw_exchange_state(struct gw_binding *entry, __u32 expected,
					       __u32 state)
{
	return __sync_val_compare_and_swap(&entry->state, expected, state);
}

/*
 * Fills an entry that nobody else has yet, by whole words: kernels before Linux 6.13, unless they
 * were mended, take half a word on the stack for a register that was saved there, and without CAP_PERFMON
 * refuse the other half ("attempt to corrupt spilled pointer on stack").
 */
static __always_inline void gw_fill_entry(struct gw_binding *entry, __u64 bind, __u64 seen_ns,
					  __u32 state, __u32 hash)
{
	union gw_tail tail = { .state = state, .hash = hash };
	volatile gw_entry_word *words = (volatile gw_entry_word *)entry;

	words[0] = bind;
	words[1] = seen_ns;
	words[2] = tail.word;
}
_Static_assert(sizeof(struct gw_binding) == 24 &&
		       __builtin_offsetof(struct gw_binding, seen_ns) == 8 &&
		       __builtin_offsetof(struct gw_binding, state) == 16,
	       "three words");

/* Copies an entry word by word. */
static __always_inline void gw_copy_entry(struct gw_binding *to, const struct gw_binding *entry)
{
	gw_fill_entry(to, gw_load_bind(entry).word, gw_load_seen_ns(entry), gw_load_state(entry),
		      gw_load_hash(entry));
}

#endif
