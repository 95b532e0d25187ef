/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers of IPv4 and IPv6 headers. */
#ifndef GW_LIB_IP_H
#define GW_LIB_IP_H

#include "bytes.h"

enum {
	GW_IPV4_BYTES = 20,
	GW_IPV6_BYTES = 40,
	GW_EXT_BYTES = 8, /* what is read of an extension header */
};

enum {
	GW_IPV4_DONT_FRAGMENT = 0x4000,
	GW_IPV4_MORE_FRAGMENTS = 0x2000,
	GW_IPV4_FRAGMENT_OFFSET = 0x1fff,
	GW_IPV6_MORE_FRAGMENTS = 0x0001,
	GW_IPV6_FRAGMENT_OFFSET = 0xfff8,
};

enum {
	GW_EXT_HOP_BY_HOP = 0,
	GW_EXT_ROUTING = 43,
	GW_EXT_FRAGMENT = 44,
	GW_EXT_AUTHENTICATION = 51,
	GW_EXT_DESTINATION_OPTIONS = 60,
	GW_EXT_MOBILITY = 135,
	GW_EXT_HOST_IDENTITY = 139,
	GW_EXT_SHIM6 = 140,
};

/* Whether a header is stepped over on the way to the transport's. One test, not one for each. */
static __always_inline bool gw_is_walked(__u8 next)
{
	const __u64 walked = 1ULL << GW_EXT_HOP_BY_HOP | 1ULL << GW_EXT_ROUTING |
			     1ULL << GW_EXT_FRAGMENT | 1ULL << GW_EXT_AUTHENTICATION |
			     1ULL << GW_EXT_DESTINATION_OPTIONS;

	return next < 64 && walked >> next & 1;
}

/* Bytes of an extension header, by its own byte of length. */
static __always_inline __u32 gw_ext_bytes(__u8 next, __u8 length)
{
	if (next == GW_EXT_FRAGMENT)
		return 8;
	if (next == GW_EXT_AUTHENTICATION)
		return 4 * (length + 2);
	return 8 * (length + 1);
}

#endif
