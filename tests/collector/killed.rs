// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A collector killed at any moment: connections stay, and the next one goes on.
