/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The version from which this program was built, as printed by deploy/version: "1.2.3", or
 * "1.2.3+git20260131120000.0123456789ab" for a commit that is not a release. */
extern const char SNOWFLAKE_VERSION[];
