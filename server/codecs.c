/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codecs.h"

#include <string.h>

typedef struct {
	Service *service;
	ThriftCodec *thrift;
} Handler;

struct _ParkedCall {
	WireCall wire;
	char agent[]; /* the call's agent */
};

static gpointer handler_new(gpointer config, Counters *counters)
{
	Handler *self = g_new0(Handler, 1);

	self->service = service_new(config, counters);
	self->thrift = thrift_codec_new(counters);
	return self;
}

static void handler_free(gpointer handler)
{
	Handler *self = handler;

	service_free(self->service);
	thrift_codec_free(self->thrift);
	g_free(self);
}

/* Saves the first of the calls. The others are read again when it has been answered. */
static G_NO_INLINE ParkedCall *park_call(const WireCall *wire)
{
	gsize length = wire->call.agent_length;
	ParkedCall *parked = g_malloc(sizeof *parked + length);

	parked->wire = *wire;
	parked->wire.call.n_calls = 1;
	if (length > 0)
		memcpy(parked->agent, wire->call.agent, length);
	parked->wire.call.agent = parked->agent;
	return parked;
}

/* Answers the calls in @wire up to the first one that waits or is refused. */
static inline RpcOutcome answer_calls(Handler *self, WireCall *wire, RpcPass *pass,
				      ParkedCall **out_parked)
{
	ServiceOutcome outcome;

	do {
		guint n_before = pass->n_answered;
		ServiceAnswer answer;
		guint n;

		outcome = service_answer(self->service, &wire->call, pass, &answer);
		if (G_UNLIKELY(outcome == SERVICE_WAITS)) {
			*out_parked = park_call(wire);
			return RPC_WAITS;
		}
		if (wire->usual != NULL)
			usual_call_write(wire, outcome, &answer, pass);
		else
			thrift_codec_write(self->thrift, wire, outcome, &answer, pass);
		service_answer_clear(&answer, outcome, wire->call.method);
		n = pass->n_answered - n_before;
		pass->consumed += n * wire->call_bytes;
		wire->call.n_calls -= n;
	} while (wire->call.n_calls > 0 && outcome == SERVICE_ANSWERED);
	return RPC_ANSWERED;
}

static RpcOutcome handler_answer_usual(gpointer handler, RpcPass *pass, ParkedCall **out_parked)
{
	WireCall wire;

	if (!usual_call_read(pass, &wire))
		return RPC_UNUSUAL;
	return answer_calls(handler, &wire, pass, out_parked);
}

static RpcOutcome handler_answer_message(gpointer handler, const Message *message, RpcPass *pass,
					 ParkedCall **out_parked)
{
	Handler *self = handler;
	g_autofree char *agent = NULL;
	WireCall wire;

	if (thrift_codec_read(self->thrift, message, pass, &wire, &agent))
		return answer_calls(self, &wire, pass, out_parked);
	pass->n_answered++;
	pass->consumed += message->taken;
	return RPC_ANSWERED;
}

static RpcOutcome handler_answer_parked(gpointer handler, ParkedCall *parked, RpcPass *pass,
					ParkedCall **out_parked)
{
	RpcOutcome outcome = answer_calls(handler, &parked->wire, pass, out_parked);

	g_free(parked);
	return outcome;
}

RpcService codecs_service(ServiceConfig *config, gboolean fast_path)
{
	return (RpcService){
		.new_handler = handler_new,
		.free_handler = handler_free,
		.answer_usual = fast_path ? handler_answer_usual : NULL,
		.answer_message = handler_answer_message,
		.answer_parked = handler_answer_parked,
		.user_data = config,
	};
}
