/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is written for the verifier, each with the instruction it is about and where it was seen.
 * Most is about programs loaded with CAP_BPF and CAP_NET_ADMIN only: without CAP_PERFMON the
 * verifier restricts pointer arithmetic against speculative execution.
 */
#ifndef GW_LIB_VERIFIER_H
#define GW_LIB_VERIFIER_H

/*
 * Moves a pointer by a constant, as "rX += K". Without CAP_PERFMON the verifier refuses "rX += rY"
 * on packet pointers whatever rY holds ("R1 has pointer with unsupported alu operation, pointer
 * arithmetic with it prohibited for !root", Linux 6.1 to 6.18), and on map values where rY is one
 * constant here and another there ("R2 tried to add from different maps, paths or scalars"). clang
 * 14 to 19 turn conditional steps into just that: it selects the constant, then adds it.
 */
#define gw_advance(pointer, bytes) asm volatile("%0 += %1" : "+r"(pointer) : "i"(bytes))

/*
 * A function that is checked once and by itself, with nothing known of its arguments. For what few
 * packets need: inlined, it would be walked through again on each way there, and without
 * CAP_PERFMON a branch that is never taken is walked through all the same.
 */
#define GW_GLOBAL __noinline

/*
 * Hides where a value came from, so that the comparison that follows is made on the very register
 * that is used. For the length given to a helper, which must not be 0: "length != 0" teaches
 * nothing to Linux 6.1 ("invalid access to memory, mem_size=144 off=0 size=0"), but
 * "length - 1 < limit" does, unless clang (14 to 19) makes the former of it.
 */
#define gw_opaque(value) asm volatile("" : "+r"(value))

/*
 * Whether an index is below a limit, for one that is a remainder or comes out of a map: clang removes
 * the comparison of the former, and computes the address of the latter before it compares (clang 14
 * and 16, "R1 max value is outside of the allowed memory range"). The index is good only behind it.
 */
#define gw_is_below(index, limit) \
	({ \
		bool below; \
		gw_opaque(index); \
		below = (index) < (limit); \
		if (below) \
			gw_opaque(index); \
		below; \
	})

/*
 * Makes the compiler load struct gw_packet again, which the verifier then knows nothing about.
 * Without this it follows each combination of constants to the end: more than a million
 * instructions (clang 14 and 16, Linux 6.18). And without CAP_PERFMON an index into a map value
 * that is one constant here and another there is refused ("R0 tried to add from different maps,
 * paths or scalars", Linux 6.1 to 6.18), and two ways of getting somewhere are only taken for one if
 * every register holds the very same: each number that is kept in a register over a branch doubles
 * the work from there on.
 */
#define gw_forget() asm volatile("" ::: "memory")

#endif
