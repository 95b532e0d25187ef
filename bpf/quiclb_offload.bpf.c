/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_quiclb for a network card that runs programs itself: the same steps, with what such a card has.
 * An object of its own, whose maps are bound to the card together with the program.
 */
#define GW_OFFLOAD
#include "quiclb.bpf.c"
