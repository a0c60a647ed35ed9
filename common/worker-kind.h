/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The names of the kinds of workers, in get_worker, in claims and in JSON. */
#define WORKER_KIND_SERVER   "server"
#define WORKER_KIND_EMBEDDED "embedded" /* a node in another program, which takes no calls */
#define WORKER_KIND_RELAY    "relay"    /* hands out IDs of other servers */
