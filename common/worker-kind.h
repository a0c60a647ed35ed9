/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names for the kinds of workers, used in get_worker, in claims and in JSON. */
#define WORKER_KIND_SERVER   "server"
#define WORKER_KIND_EMBEDDED "embedded" /* a node embedded in another program; accepts no calls */
#define WORKER_KIND_RELAY    "relay"    /* hands out the IDs of other servers */
