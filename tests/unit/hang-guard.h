/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long a test waits for what must come, and only waits if it does not. A busy machine takes its
 * time over it; meson's timeouts (tests/meson.build) are longer. */
#define HANG_GUARD_S  60
#define HANG_GUARD_MS (HANG_GUARD_S * 1000)
#define HANG_GUARD_US (HANG_GUARD_MS * G_GINT64_CONSTANT(1000))
