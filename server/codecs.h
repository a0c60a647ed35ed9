/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/thrift/types.h"
#include "server/service.h"

/*
 * The handler of an event loop, and its two codecs: a codec reads each call, a Service answers it
 * (service_answer()), and the same codec writes the answer.
 *
 * The fast path knows the usual calls: get_id, get_ids, get_id_runs, get_worker and the three that
 * request a number, in strict binary, framed or not, with every argument in its usual place. It
 * leaves all other bytes to the Thrift codec, which knows every call in every protocol and consists
 * of Thrift's generated code. Both write the same bytes; a test compares them.
 */

/* One of the usual calls. */
typedef struct _UsualCall UsualCall;

/* A call as it was read. */
typedef struct {
	ServiceCall call;
	const UsualCall *usual; /* NULL: the Thrift codec has read it, not the fast path */
	gboolean framed;
	gsize call_bytes;      /* of each call, with its frame */
	guint seqid_at;        /* fast path: from the beginning of the call */
	WireProtocol protocol; /* Thrift codec */
	gint32 seqid;          /* Thrift codec */
} WireCall;

/* Reads the calls at the front. If a call is parked, the bytes stay there until it is answered.
 * %FALSE: they are not usual, or not complete. */
gboolean usual_call_read(const RpcPass *pass, WireCall *out_call);

/* Appends the reply to the call at the front, or to the first calls of get_id there, of which
 * there are as many as IDs in the run. */
void usual_call_write(const WireCall *call, ServiceOutcome outcome, const ServiceAnswer *answer,
		      RpcPass *pass);

/* Each thread has one. */
typedef struct _ThriftCodec ThriftCodec;

/* @counters: of the thread */
ThriftCodec *thrift_codec_new(Counters *counters);
void thrift_codec_free(ThriftCodec *self);

/* Reads a message. If no call can be made of it, appends an exception: a TApplicationException of
 * type 1 for an unknown method, of type 7 (protocol error) for bad arguments. The exception is
 * counted.
 *
 * "Snowflake:get_id" is get_id too, as TMultiplexedProtocol calls it: after "Snowflake:" only the
 * legacy calls follow, after "SnowflakeExtended:" all. The reply has the bare name.
 * @out_agent: (out) (transfer full) (nullable): the text of the agent in @out_call
 * Returns: %FALSE if an exception was the answer */
gboolean thrift_codec_read(ThriftCodec *self, const Message *message, RpcPass *pass,
			   WireCall *out_call, char **out_agent);

/* Appends the reply. */
void thrift_codec_write(ThriftCodec *self, const WireCall *call, ServiceOutcome outcome,
			const ServiceAnswer *answer, RpcPass *pass);

/* The handler. @config: borrowed, outlives the loops. @fast_path: %FALSE: the Thrift codec reads
 * every call */
RpcService codecs_service(ServiceConfig *config, gboolean fast_path);
