/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/thrift/types.h"
#include "server/service.h"

/* The handler of an event loop, and its two codecs: a codec reads each call, a Service answers it
 * (service_answer()), and the same codec writes the answer.
 *
 * The fast path handles the usual calls: get_id, get_ids, get_id_runs, get_worker and the three
 * legacy calls that return a number. They must be in strict binary, framed or not, with every
 * argument in its usual place. It leaves all other bytes to the Thrift codec, which uses Thrift's
 * generated code and supports every call in every protocol. Both codecs write the same bytes; a
 * test compares them. */

/* One of the usual calls. */
typedef struct _UsualCall UsualCall;

/* A call that a codec has read. */
typedef struct {
	ServiceCall call;
	const UsualCall *usual; /* NULL if it was read by the Thrift codec, not by the fast path */
	gboolean framed;
	gsize call_bytes;      /* number of bytes of each call, including its frame length */
	guint seqid_at;        /* fast path: offset of the sequence ID in the call */
	WireProtocol protocol; /* Thrift codec */
	gint32 seqid;          /* Thrift codec */
} WireCall;

/* Reads the first calls in the bytes of @pass. If a call is parked, its bytes stay there until it
 * is answered. Returns %FALSE if the calls are not usual calls, or not complete. */
gboolean usual_call_read(const RpcPass *pass, WireCall *out_call);

/* Appends the reply to the first call; for get_id, one reply per ID in the run. */
void usual_call_write(const WireCall *call, ServiceOutcome outcome, const ServiceAnswer *answer,
		      RpcPass *pass);

/* The codec of one thread. */
typedef struct _ThriftCodec ThriftCodec;

/* @counters: the thread's counters */
ThriftCodec *thrift_codec_new(Counters *counters);
void thrift_codec_free(ThriftCodec *self);

/* Reads a message. If it is not a valid call, appends an exception: a TApplicationException of type
 * 1 for an unknown method, of type 7 (protocol error) for invalid arguments. The exception is
 * counted.
 *
 * TMultiplexedProtocol calls get_id by the name "Snowflake:get_id". "Snowflake:" is followed by a
 * legacy call, and "SnowflakeExtended:" by any call. The reply contains the name without the
 * prefix.
 * @out_agent: (out) (transfer full) (nullable): the text of the agent in @out_call
 * Returns: %FALSE if an exception was appended */
gboolean thrift_codec_read(ThriftCodec *self, const Message *message, RpcPass *pass,
			   WireCall *out_call, char **out_agent);

/* Appends the reply. */
void thrift_codec_write(ThriftCodec *self, const WireCall *call, ServiceOutcome outcome,
			const ServiceAnswer *answer, RpcPass *pass);

/* Returns the service for the event loops. @config: borrowed; must outlive the loops. @fast_path:
 * if %FALSE, the Thrift codec reads every call */
RpcService codecs_service(ServiceConfig *config, gboolean fast_path);
