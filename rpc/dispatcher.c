/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/dispatcher.h"

#include <string.h>

#include "common/thrift/types.h"
#include "core/text.h"
#include "rpc/protocols.h"

/* The longest useful name of a method is far below; a longer one is unknown without a look-up. */
#define MAX_NAME_BYTES 64

/* A method as it was called, without the service's name that TMultiplexedProtocol puts in front. */
typedef struct {
	const char *bytes;
	gsize length;
	gboolean of_2010; /* only the calls of the base service are served */
} MethodName;

struct _Dispatcher {
	RpcAllowance allowance;
	RpcVerdict verdict;
	Counters *counters;
	RpcFastPath fast_path;
	SpanTransport *transport;
	ThriftProtocol *binary;
	ThriftProtocol *compact;
	SfSnowflakeExtendedHandler *handler;
	ThriftDispatchProcessor *processor;
	SfSnowflakeProcessorClass *base_class; /* a reference is held */
};

Dispatcher *dispatcher_new(const RpcService *service, Counters *counters)
{
	Dispatcher *self = g_new0(Dispatcher, 1);

	self->counters = counters;
	self->fast_path = service->fast_path;
	self->transport = span_transport_new();
	self->binary = protocols_new(WIRE_STRICT, self->transport);
	self->compact = protocols_new(WIRE_COMPACT, self->transport);
	self->handler = service->new_handler(service->user_data, &self->allowance, &self->verdict,
					     counters);
	self->processor =
		g_object_new(SF_TYPE_SNOWFLAKE_EXTENDED_PROCESSOR, "handler", self->handler, NULL);
	self->base_class = g_type_class_ref(SF_TYPE_SNOWFLAKE_PROCESSOR);
	return self;
}

void dispatcher_free(Dispatcher *self)
{
	if (self == NULL)
		return;
	g_type_class_unref(self->base_class);
	g_object_unref(self->processor);
	g_object_unref(self->handler);
	g_object_unref(self->compact);
	g_object_unref(self->binary);
	g_object_unref(self->transport);
	g_free(self);
}

void dispatcher_begin(Dispatcher *self, const RpcAllowance *allowance)
{
	self->allowance = *allowance;
	self->verdict = (RpcVerdict){0};
}

const RpcVerdict *dispatcher_verdict(const Dispatcher *self)
{
	return &self->verdict;
}

/* @exceptions: as the counter stood before; no call has more than one */
static inline void note_answered(Dispatcher *self, CounterMethod method, guint n_calls,
				 guint64 exceptions)
{
	guint refused = (guint)(counters_get(self->counters, COUNTER_EXCEPTIONS) - exceptions);

	counters_add(self->counters, COUNTER_CALLS, n_calls);
	counters_add(self->counters, COUNTER_ANSWERED + method, n_calls - refused);
	if (G_UNLIKELY(refused > 0))
		counters_add(self->counters, COUNTER_REFUSED + method, refused);
	self->verdict.answered += n_calls;
}

gsize dispatcher_answer_fast(Dispatcher *self, const RpcInput *input, GByteArray *out)
{
	guint64 exceptions = counters_get(self->counters, COUNTER_EXCEPTIONS);
	gsize length = 0;
	CounterMethod method;
	guint n_calls;

	if (self->fast_path != NULL)
		length = self->fast_path(self->handler, input, out, &method, &n_calls);
	if (length > 0)
		note_answered(self, method, n_calls, exceptions);
	return length;
}

/* @arguments_length: of the arguments that are to be read */
static ThriftProtocol *lend_protocol(Dispatcher *self, const Message *message,
				     gsize arguments_length, GByteArray *out)
{
	span_transport_lend(self->transport, message->bytes + message->header.arguments_offset,
			    arguments_length, out);
	if (message->header.protocol != WIRE_COMPACT)
		return self->binary;
	protocols_reset_compact(self->compact);
	return self->compact;
}

static MethodName method_name(const Message *message)
{
	static const struct {
		const char *prefix;
		gboolean of_2010;
	} SERVICES[] = {{"Snowflake:", TRUE}, {"SnowflakeExtended:", FALSE}};
	MethodName name = {(const char *)message->bytes + message->header.name_offset,
			   message->header.name_length, FALSE};

	for (gsize i = 0; i < G_N_ELEMENTS(SERVICES); i++) {
		gsize length = strlen(SERVICES[i].prefix);

		if (name.length >= length && memcmp(name.bytes, SERVICES[i].prefix, length) == 0)
			return (MethodName){name.bytes + length, name.length - length,
					    SERVICES[i].of_2010};
	}
	return name;
}

/* Returns (transfer full): the name as the client sent it. A name that is long or not UTF-8 is
 * escaped, as c_glib cannot write it, or a client cannot read it. */
static char *echo_name(const MethodName *method)
{
	if (method->length <= MAX_NAME_BYTES &&
	    g_utf8_validate(method->bytes, (gssize)method->length, NULL))
		return g_strndup(method->bytes, method->length);
	return text_escape(method->bytes, method->length);
}

/* Appends a TApplicationException, without the object: it would cost more than all else. */
static void refuse(Dispatcher *self, const Message *message, gint32 type, const char *reason,
		   GByteArray *out)
{
	MethodName method = method_name(message);
	g_autofree char *name = echo_name(&method);
	ThriftProtocol *protocol = lend_protocol(self, message, 0, out);
	gint32 seqid = message->header.seqid;
	g_autoptr(GError) error = NULL;

	if (thrift_protocol_write_message_begin(protocol, name, T_EXCEPTION, seqid, &error) < 0 ||
	    thrift_protocol_write_struct_begin(protocol, "TApplicationException", &error) < 0 ||
	    thrift_protocol_write_field_begin(protocol, "message", T_STRING, 1, &error) < 0 ||
	    thrift_protocol_write_string(protocol, reason, &error) < 0 ||
	    thrift_protocol_write_field_end(protocol, &error) < 0 ||
	    thrift_protocol_write_field_begin(protocol, "type", T_I32, 2, &error) < 0 ||
	    thrift_protocol_write_i32(protocol, type, &error) < 0 ||
	    thrift_protocol_write_field_end(protocol, &error) < 0 ||
	    thrift_protocol_write_field_stop(protocol, &error) < 0 ||
	    thrift_protocol_write_struct_end(protocol, &error) < 0 ||
	    thrift_protocol_write_message_end(protocol, &error) < 0)
		g_error("a reply: %s", error->message); /* lint: allow fatal: memory takes it */
	counters_add(self->counters, COUNTER_EXCEPTIONS, 1);
	counters_add(self->counters,
		     type == APPLICATION_UNKNOWN_METHOD ? COUNTER_REFUSED_METHOD
							: COUNTER_REFUSED_MESSAGE,
		     1);
}

typedef gboolean (*ProcessorCall)(ThriftDispatchProcessor *, ThriftProtocol *, ThriftProtocol *,
				  gchar *, gint32, GError **);

/**
 * The generated processor that has the method: the generated look-up of a method that neither
 * service has recurses for ever when one service extends another, so the look-up is done here.
 *
 * Returns: the class's dispatch function, or NULL if no service has the method
 */
static ProcessorCall find_processor(Dispatcher *self, const char *name, gboolean of_2010)
{
	SfSnowflakeExtendedProcessor *extended = SF_SNOWFLAKE_EXTENDED_PROCESSOR(self->processor);

	if (!of_2010 && g_hash_table_contains(extended->process_map, name))
		return SF_SNOWFLAKE_EXTENDED_PROCESSOR_GET_CLASS(extended)->dispatch_call;
	if (g_hash_table_contains(extended->parent.process_map, name))
		return self->base_class->dispatch_call;
	return NULL;
}

/* Appends a reply, or, if the call is parked, what is void. Returns which method was called. */
static CounterMethod process(Dispatcher *self, const Message *message, GByteArray *out)
{
	const MessageHeader *header = &message->header;
	MethodName method = method_name(message);
	g_autoptr(GError) error = NULL;
	char name[MAX_NAME_BYTES + 1] = "";
	ProcessorCall call = NULL;
	ThriftProtocol *protocol;
	guint start = out->len;

	/* a name with a NUL in it is not the name before the NUL */
	if (method.length <= MAX_NAME_BYTES && memchr(method.bytes, 0, method.length) == NULL) {
		memcpy(name, method.bytes, method.length);
		call = find_processor(self, name, method.of_2010);
	}
	if (call == NULL) {
		g_autofree char *escaped = text_escape(method.bytes, method.length);
		g_autofree char *reason = g_strdup_printf("Invalid method name: '%s'", escaped);

		refuse(self, message, APPLICATION_UNKNOWN_METHOD, reason, out);
		return COUNTER_OTHER_METHOD;
	}
	protocol = lend_protocol(self, message, header->length - header->arguments_offset, out);
	/* the callee frees the name */
	if (!call(self->processor, protocol, protocol, g_strdup(name), header->seqid, &error)) {
		g_byte_array_set_size(out, start);
		refuse(self, message, APPLICATION_PROTOCOL_ERROR,
		       error != NULL ? error->message : "unreadable arguments", out);
	}
	return counter_method_of(name);
}

gboolean dispatcher_answer(Dispatcher *self, const Message *message, GByteArray *out)
{
	guint64 exceptions = counters_get(self->counters, COUNTER_EXCEPTIONS);
	CounterMethod method = COUNTER_OTHER_METHOD;
	guint start = out->len;
	guint32 length;

	if (message->framed)
		g_byte_array_set_size(out, start + FRAMING_HEADER_BYTES);
	if (message->bad != NULL)
		refuse(self, message, APPLICATION_PROTOCOL_ERROR, message->bad, out);
	else
		method = process(self, message, out);
	if (self->verdict.parked) {
		g_byte_array_set_size(out, start);
		return FALSE;
	}
	if (message->framed) {
		length = GUINT32_TO_BE(out->len - start - FRAMING_HEADER_BYTES);
		memcpy(out->data + start, &length, sizeof length);
	}
	note_answered(self, method, 1, exceptions);
	return TRUE;
}
