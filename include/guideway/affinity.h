/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Identity of a flow; the service implies VIP, family and protocol. */
#ifndef GW_AFFINITY_H
#define GW_AFFINITY_H

/* 24 bytes; an IPv4 address fills the first four of address, the rest is zero. */
struct gw_flow_key {
	__u32 service;
	__be16 client_port;
	__be16 vip_port;
	__u8 address[16];
};

#endif
