/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"
#include "server/health.h"

/*
 * What Prometheus is told. By its conventions: base units, names that end with them, _total where a
 * number only grows. snowflaked(8), METRICS, has a list.
 */
typedef struct {
	const ServiceConfig *service;
	const Health *health;
	const RpcServer *rpc;
	const _Atomic gint64 *certificate_expires_ms; /* as Server has it */
} MetricsSource;

/* (transfer full): all of it. Any thread, from the start of the source to its end. */
char *metrics_text(const MetricsSource *source);
