/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Words out of bytes. Network order is be, the little-endian reading is le; where neither is said
 * a word is as the machine loads it.
 */
#ifndef GW_LIB_BYTES_H
#define GW_LIB_BYTES_H

#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define gw_le16(x) ((__u16)(x))
#define gw_le32(x) ((__u32)(x))
#define gw_le64(x) ((__u64)(x))
#else
#define gw_le16(x) __builtin_bswap16(x)
#define gw_le32(x) __builtin_bswap32(x)
#define gw_le64(x) __builtin_bswap64(x)
#endif

/* Loads at any alignment: the kernels of all supported architectures allow them in packets. */
#define gw_load16(bytes, at) (*(const __u16 *)((const __u8 *)(bytes) + (at)))
#define gw_load32(bytes, at) (*(const __u32 *)((const __u8 *)(bytes) + (at)))
#define gw_load64(bytes, at) (*(const __u64 *)((const __u8 *)(bytes) + (at)))
#define gw_load8(bytes, at) (((const __u8 *)(bytes))[at])

#define gw_load_be16(bytes, at) bpf_ntohs(gw_load16(bytes, at))
#define gw_load_be32(bytes, at) bpf_ntohl(gw_load32(bytes, at))

#endif
