/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long a test waits for what must come, and only waits if it does not. A busy machine takes its
 * time over it; meson's timeouts (tests/meson.build) are longer. */
#define PATIENCE_S  60
#define PATIENCE_MS (PATIENCE_S * 1000)
#define PATIENCE_US (PATIENCE_MS * G_GINT64_CONSTANT(1000))
