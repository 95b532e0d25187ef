/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What helpers answer, negative and in 32 bits: to Linux 6.1 the upper ones are nothing. */
#ifndef GW_LIB_ERRNO_H
#define GW_LIB_ERRNO_H

enum {
	GW_ENOENT = 2,
	GW_E2BIG = 7,
	GW_EEXIST = 17,
	GW_EALREADY = 114,
};

#endif
