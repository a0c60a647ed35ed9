/* SPDX-License-Identifier: Apache-2.0 */
#include "load/wire.h"

const char *const load_wire_call_names[] = {
	"get_id",        "get_ids",           "get_id_runs", "get_timestamp",
	"get_worker_id", "get_datacenter_id", "redis-incr",  NULL,
};
const char *const load_wire_framing_names[] = {"framed", "unframed", NULL};
const char *const load_wire_protocol_names[] = {"strict", "compact", "unversioned", NULL};

gboolean load_wire_is_batch(LoadWireCall call)
{
	return call == LOAD_WIRE_GET_IDS || call == LOAD_WIRE_GET_ID_RUNS;
}

gboolean load_wire_gives_ids(LoadWireCall call)
{
	return call == LOAD_WIRE_GET_ID || load_wire_is_batch(call) || call == LOAD_WIRE_REDIS_INCR;
}

static gint64 least_value_of(LoadWireCall call)
{
	/* the first worker and the first datacenter are 0 */
	return call == LOAD_WIRE_GET_WORKER_ID || call == LOAD_WIRE_GET_DATACENTER_ID ? 0 : 1;
}

LoadWire *load_wire_new(const LoadWireForm *form, guint slots)
{
	LoadWire *self = g_new0(LoadWire, 1);

	self->form = *form;
	self->codec = form->call == LOAD_WIRE_REDIS_INCR ? &load_wire_redis_codec
							 : &load_wire_thrift_codec;
	self->call_name = load_wire_call_names[form->call];
	self->slots = slots;
	self->values_per_call = load_wire_is_batch(form->call) ? (guint)form->count : 1;
	self->least_value = least_value_of(form->call);
	self->codec->make_templates(self);
	self->largest_reply = MAX(self->largest_reply, LOAD_WIRE_MAX_ERROR_BYTES);
	return self;
}

void load_wire_free(LoadWire *self)
{
	if (self == NULL)
		return;
	g_free(self->request);
	g_free(self);
}

char *load_wire_describe_error(const LoadWire *self, const LoadWireReply *reply)
{
	g_autofree char *message = self->codec->error_message(self, reply);
	g_autofree char *escaped = NULL;

	if (message == NULL)
		return g_strdup_printf("a reply of %zu bytes that is neither a result of the call "
				       "nor an exception with a message",
				       reply->length);
	escaped = g_strescape(message, NULL);
	return g_strdup_printf("an exception: %s", escaped);
}
