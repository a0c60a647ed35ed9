/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The time after which a test that waits for an event has hung. It is long enough for a busy
 * machine, and shorter than meson's timeouts (tests/meson.build). */
#define HANG_GUARD_S  60
#define HANG_GUARD_MS (HANG_GUARD_S * 1000)
#define HANG_GUARD_US (HANG_GUARD_MS * G_GINT64_CONSTANT(1000))
