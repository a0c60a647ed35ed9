/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What snowflakectl ends with. */
typedef enum {
	CTL_OK = 0,
	CTL_FAILED = 1,        /* refused, not reachable, or input that makes no sense */
	CTL_USAGE = 2,         /* wrong options or arguments */
	CTL_INTERRUPTED = 130, /* by Ctrl-C */
} CtlStatus;
