/* SPDX-License-Identifier: Apache-2.0 */

/* Reads calls into Thrift's generated structs, and writes replies from them. The generated
 * processor is not used, because it reads, answers and writes in one function, so that a call that
 * waits would have to be read again.
 *
 * Thrift's protocol classes work on bytes that the scanner has accepted. This file works around
 * one of their bugs: strings end at the first NUL, so "foo\0bar" would be read as "foo". Here a
 * NUL becomes the two bytes C0 80, which no valid text contains.
 */
#include <string.h>
#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_compact_protocol.h>
#include <thrift/c_glib/transport/thrift_transport.h>

#include "common/thrift/byte-writer.h"
#include "common/thrift/reader.h"
#include "core/random.h"
#include "core/text.h"
#include "core/uuid.h"
#include "server/codecs.h"
#include "sf_snowflake_extended.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(ThriftStruct, g_object_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ThriftTransport, g_object_unref)

/* A transport that reads from borrowed bytes and writes to a borrowed array. A read past the end is
 * an error. */
typedef struct {
	ThriftTransport parent;
	ThriftReader in;
	GByteArray *out;
} SpanTransport;

static gboolean span_transport_yes(ThriftTransport *transport G_GNUC_UNUSED)
{
	return TRUE;
}

static gboolean span_transport_done(ThriftTransport *transport G_GNUC_UNUSED,
				    GError **error G_GNUC_UNUSED)
{
	return TRUE;
}

/* Thrift would compare sizes with its own limits. Here the message is the limit, and the scanner
 * has checked that it contains all bytes that its lengths announce. */
static gboolean span_transport_size_done(ThriftTransport *transport G_GNUC_UNUSED,
					 glong size G_GNUC_UNUSED, GError **error G_GNUC_UNUSED)
{
	return TRUE;
}

static gboolean span_transport_peek(ThriftTransport *transport, GError **error G_GNUC_UNUSED)
{
	return ((SpanTransport *)transport)->in.left > 0;
}

static gint32 span_transport_read(ThriftTransport *transport, gpointer buffer, guint32 length,
				  GError **error)
{
	ThriftReader *in = &((SpanTransport *)transport)->in;

	if (length > in->left) {
		g_set_error(error, THRIFT_TRANSPORT_ERROR, THRIFT_TRANSPORT_ERROR_RECEIVE,
			    "the message ends within a value");
		return -1;
	}
	memcpy(buffer, in->at, length);
	in->at += length;
	in->left -= length;
	return (gint32)length;
}

static gboolean span_transport_write(ThriftTransport *transport, const gpointer buffer,
				     const guint32 length, GError **error G_GNUC_UNUSED)
{
	g_byte_array_append(((SpanTransport *)transport)->out, buffer, length);
	return TRUE;
}

static void span_transport_init_class(gpointer klass, gpointer data G_GNUC_UNUSED)
{
	ThriftTransportClass *transport = klass;

	transport->is_open = span_transport_yes;
	transport->peek = span_transport_peek;
	transport->open = span_transport_done;
	transport->close = span_transport_done;
	transport->read = span_transport_read;
	transport->read_all = span_transport_read;
	transport->read_end = span_transport_done;
	transport->write = span_transport_write;
	transport->write_end = span_transport_done;
	transport->flush = span_transport_done;
	transport->updateKnownMessageSize = span_transport_size_done;
	transport->checkReadBytesAvailable = span_transport_size_done;
	transport->resetConsumedMessageSize = span_transport_size_done;
	transport->countConsumedMessageBytes = span_transport_size_done;
}

/* Registered once. */
static struct {
	GType transport, binary, compact;
} span_types;

/* Maximum length of a string. The service refuses longer strings, and quotes fewer bytes. The limit
 * keeps large messages from taking long. */
#define MAX_TEXT_BYTES 512

/* Reads a string. Drops bytes beyond MAX_TEXT_BYTES, but keeps bytes after a NUL. */
static gint32 span_protocol_read_string(ThriftProtocol *protocol, gchar **out_text, GError **error)
{
	ThriftReader *reader = &((SpanTransport *)protocol->transport)->in;
	gsize left = reader->left;
	gsize length = G_OBJECT_TYPE(protocol) == span_types.compact
			       ? thrift_reader_varint(reader)
			       : (guint32)thrift_reader_i32(reader);
	const guint8 *bytes = thrift_reader_take(reader, length);
	char *end;

	if (bytes == NULL) {
		g_set_error(error, THRIFT_PROTOCOL_ERROR, THRIFT_PROTOCOL_ERROR_INVALID_DATA,
			    "the message ends within a string");
		return -1;
	}
	length = MIN(length, MAX_TEXT_BYTES);
	end = *out_text = g_malloc(2 * length + 1);
	for (gsize i = 0; i < length; i++) {
		*end++ = (char)(bytes[i] != 0 ? bytes[i] : 0xc0);
		if (bytes[i] == 0)
			*end++ = '\x80';
	}
	*end = '\0';
	return (gint32)(left - reader->left);
}

static void span_protocol_init_class(gpointer klass, gpointer data G_GNUC_UNUSED)
{
	THRIFT_PROTOCOL_CLASS(klass)->read_string = span_protocol_read_string;
}

/* Methods */

/* Maximum length of a name. Longer names are unknown. */
#define MAX_NAME_BYTES 64

/* The name of the called method, without the service's name that TMultiplexedProtocol adds. */
typedef struct {
	const char *bytes;
	gsize length;
	gboolean only_legacy; /* only legacy calls are allowed */
} MethodName;

typedef struct {
	gboolean is_legacy;
	GType (*arguments)(void);
	GType (*result)(void);
} Method;

#define METHOD(is_legacy, name)                                                                    \
	{                                                                                          \
		is_legacy, sf_snowflake_##name##_args_get_type,                                    \
			sf_snowflake_##name##_result_get_type                                      \
	}

static const Method METHODS[N_COUNTER_METHODS] = {
	[COUNTER_GET_WORKER_ID] = METHOD(TRUE, get_worker_id),
	[COUNTER_GET_TIMESTAMP] = METHOD(TRUE, get_timestamp),
	[COUNTER_GET_ID] = METHOD(TRUE, get_id),
	[COUNTER_GET_DATACENTER_ID] = METHOD(TRUE, get_datacenter_id),
	[COUNTER_GET_IDS] = METHOD(FALSE, extended_get_ids),
	[COUNTER_GET_WORKER] = METHOD(FALSE, extended_get_worker),
	[COUNTER_GET_WORKERS] = METHOD(FALSE, extended_get_workers),
	[COUNTER_GET_COUNTERS] = METHOD(FALSE, extended_get_counters),
	[COUNTER_GET_ULIDS] = METHOD(FALSE, extended_get_ulids),
	[COUNTER_GET_UUIDS] = METHOD(FALSE, extended_get_uuids),
	[COUNTER_GET_ID_RUNS] = METHOD(FALSE, extended_get_id_runs),
};

struct _ThriftCodec {
	Counters *counters;
	SpanTransport *transport;
	ThriftProtocol *binary;
	ThriftProtocol *compact;
};

ThriftCodec *thrift_codec_new(Counters *counters)
{
	static gsize once;
	ThriftCodec *self = g_new0(ThriftCodec, 1);

	if (g_once_init_enter(&once)) {
		span_types.transport = g_type_register_static_simple(
			THRIFT_TYPE_TRANSPORT, "SpanTransport", sizeof(ThriftTransportClass),
			span_transport_init_class, sizeof(SpanTransport), NULL, G_TYPE_FLAG_NONE);
		span_types.binary = g_type_register_static_simple(
			THRIFT_TYPE_BINARY_PROTOCOL, "SpanBinaryProtocol",
			sizeof(ThriftBinaryProtocolClass), span_protocol_init_class,
			sizeof(ThriftBinaryProtocol), NULL, G_TYPE_FLAG_NONE);
		span_types.compact = g_type_register_static_simple(
			THRIFT_TYPE_COMPACT_PROTOCOL, "SpanCompactProtocol",
			sizeof(ThriftCompactProtocolClass), span_protocol_init_class,
			sizeof(ThriftCompactProtocol), NULL, G_TYPE_FLAG_NONE);
		g_once_init_leave(&once, 1);
	}
	self->counters = counters;
	self->transport = g_object_new(span_types.transport, NULL);
	self->binary = g_object_new(span_types.binary, "transport", self->transport, NULL);
	self->compact = g_object_new(span_types.compact, "transport", self->transport, NULL);
	return self;
}

void thrift_codec_free(ThriftCodec *self)
{
	g_object_unref(self->compact);
	g_object_unref(self->binary);
	g_object_unref(self->transport);
	g_free(self);
}

/* Returns the protocol of @wire, ready to read @bytes and to append to @out. The reply to an
 * unversioned call is versioned. */
static ThriftProtocol *lend_protocol(ThriftCodec *self, WireProtocol wire, const guint8 *bytes,
				     gsize length, GByteArray *out)
{
	ThriftCompactProtocol *compact = THRIFT_COMPACT_PROTOCOL(self->compact);

	self->transport->in = (ThriftReader){.at = bytes, .left = length};
	self->transport->out = out;
	if (wire != WIRE_COMPACT)
		return self->binary;
	/* drop state from the previous message, such as a boolean that was read together with its
	 * field's header */
	g_queue_clear(&compact->_last_field);
	compact->_last_field_id = 0;
	compact->_has_bool_value = FALSE;
	compact->_bool_field_name = NULL;
	return self->compact;
}

/* Appends a TApplicationException without creating the object, which would cost more than
 * everything else. */
static void write_exception(ThriftProtocol *protocol, const char *name, gint32 seqid, gint32 type,
			    const char *text)
{
	g_autoptr(GError) error = NULL;

	if (thrift_protocol_write_message_begin(protocol, name, T_EXCEPTION, seqid, &error) < 0 ||
	    thrift_protocol_write_struct_begin(protocol, "TApplicationException", &error) < 0 ||
	    thrift_protocol_write_field_begin(protocol, "message", T_STRING, 1, &error) < 0 ||
	    thrift_protocol_write_string(protocol, text, &error) < 0 ||
	    thrift_protocol_write_field_end(protocol, &error) < 0 ||
	    thrift_protocol_write_field_begin(protocol, "type", T_I32, 2, &error) < 0 ||
	    thrift_protocol_write_i32(protocol, type, &error) < 0 ||
	    thrift_protocol_write_field_end(protocol, &error) < 0 ||
	    thrift_protocol_write_field_stop(protocol, &error) < 0 ||
	    thrift_protocol_write_struct_end(protocol, &error) < 0 ||
	    thrift_protocol_write_message_end(protocol, &error) < 0)
		g_error("a reply: %s", error->message); /* lint: allow fatal: cannot fail */
}

/* Reading */

static MethodName method_name(const Message *message)
{
	static const struct {
		const char *prefix;
		gboolean only_legacy;
	} SERVICES[] = {{"Snowflake:", TRUE}, {"SnowflakeExtended:", FALSE}};
	MethodName name = {(const char *)message->bytes + message->header.name_offset,
			   message->header.name_length, FALSE};

	for (gsize i = 0; i < G_N_ELEMENTS(SERVICES); i++) {
		gsize length = strlen(SERVICES[i].prefix);

		if (name.length >= length && memcmp(name.bytes, SERVICES[i].prefix, length) == 0)
			return (MethodName){name.bytes + length, name.length - length,
					    SERVICES[i].only_legacy};
	}
	return name;
}

/* Refuses a message that is not a valid call. */
static void refuse_message(ThriftCodec *self, const Message *message, CounterMethod method,
			   gint32 type, const char *reason, RpcPass *pass)
{
	MethodName called = method_name(message);
	/* reply with the name that the client sent, unless c_glib cannot write it or a client
	 * cannot read it */
	gboolean is_plain = called.length <= MAX_NAME_BYTES &&
			    g_utf8_validate(called.bytes, (gssize)called.length, NULL);
	g_autofree char *name = is_plain ? g_strndup(called.bytes, called.length)
					 : text_escape(called.bytes, called.length);
	guint start = byte_writer_begin_frame(pass->out, pass->framed);

	write_exception(lend_protocol(self, message->header.protocol, NULL, 0, pass->out), name,
			message->header.seqid, type, reason);
	byte_writer_end_frame(pass->out, pass->framed, start);
	counters_add(self->counters, COUNTER_EXCEPTIONS, 1);
	counters_add(self->counters,
		     type == APPLICATION_UNKNOWN_METHOD ? COUNTER_REFUSED_METHOD
							: COUNTER_REFUSED_MESSAGE,
		     1);
	counters_add(self->counters, COUNTER_REFUSED + method, 1);
	counters_add(self->counters, COUNTER_CALLS, 1);
}

/* Returns OTHER if the method is unknown, or does not belong to the service that the client
 * named. */
static CounterMethod find_method(const MethodName *called)
{
	char name[MAX_NAME_BYTES + 1] = "";
	CounterMethod method;

	/* do not ignore the part of a name after a NUL */
	if (called->length > MAX_NAME_BYTES || memchr(called->bytes, 0, called->length) != NULL)
		return COUNTER_OTHER_METHOD;
	memcpy(name, called->bytes, called->length);
	method = counter_method_of(name);
	return called->only_legacy && !METHODS[method].is_legacy ? COUNTER_OTHER_METHOD : method;
}

gboolean thrift_codec_read(ThriftCodec *self, const Message *message, RpcPass *pass,
			   WireCall *out_call, char **out_agent)
{
	const MessageHeader *header = &message->header;
	MethodName called = method_name(message);
	CounterMethod method = find_method(&called);
	g_autoptr(ThriftStruct) arguments = NULL;
	g_autofree char *agent = NULL;
	g_autoptr(GError) error = NULL;
	ThriftProtocol *protocol;
	gint count = 0;

	if (message->bad != NULL) {
		refuse_message(self, message, COUNTER_OTHER_METHOD, APPLICATION_PROTOCOL_ERROR,
			       message->bad, pass);
		return FALSE;
	}
	if (method == COUNTER_OTHER_METHOD) {
		g_autofree char *escaped = text_escape(called.bytes, called.length);
		g_autofree char *reason = g_strdup_printf("Invalid method name: '%s'", escaped);

		refuse_message(self, message, method, APPLICATION_UNKNOWN_METHOD, reason, pass);
		return FALSE;
	}
	protocol = lend_protocol(self, header->protocol, message->bytes + header->arguments_offset,
				 header->length - header->arguments_offset, pass->out);
	arguments = g_object_new(METHODS[method].arguments(), NULL);
	if (thrift_struct_read(arguments, protocol, &error) < 0) {
		refuse_message(self, message, method, APPLICATION_PROTOCOL_ERROR,
			       error != NULL ? error->message : "invalid arguments", pass);
		return FALSE;
	}
	if (g_object_class_find_property(G_OBJECT_GET_CLASS(arguments), "useragent") != NULL)
		g_object_get(arguments, "useragent", &agent, NULL);
	if (g_object_class_find_property(G_OBJECT_GET_CLASS(arguments), "count") != NULL)
		g_object_get(arguments, "count", &count, NULL);
	if (agent == NULL)
		agent = g_strdup("");
	*out_call = (WireCall){
		.call =
			{
				.method = method,
				.agent = agent,
				.agent_length = strlen(agent),
				.count = count,
				.n_calls = 1,
			},
		.framed = pass->framed,
		.call_bytes = message->taken,
		.protocol = header->protocol,
		.seqid = header->seqid,
	};
	out_call->call.agent_is_valid = useragent_is_valid(agent, out_call->call.agent_length);
	*out_agent = g_steal_pointer(&agent);
	return TRUE;
}

/* Writing */

static void append_bytes(GPtrArray *list, Uuid uuid)
{
	GByteArray *bytes = g_byte_array_sized_new(UUID_BYTES);

	g_byte_array_set_size(bytes, UUID_BYTES);
	uuid_to_bytes(uuid, bytes->data);
	g_ptr_array_add(list, bytes);
}

/* Returns: (transfer full) */
static SfWorker *make_worker(const SnowflakeClientWorker *worker)
{
	SfWorker *made =
		g_object_new(SF_TYPE_WORKER, "datacenter_id", worker->datacenter_id, "worker_id",
			     worker->worker_id, "address", worker->address, "nonce", worker->nonce,
			     "claimed_at_ms", worker->claimed_at_ms, "reserved_until_ms",
			     worker->reserved_until_ms, "state", worker->state, "as_of_ms",
			     worker->as_of_ms, "kind", worker->kind, NULL);

	if (*worker->program != '\0')
		g_object_set(made, "program", worker->program, NULL);
	if (worker->server != NULL && *worker->server != '\0')
		g_object_set(made, "server", worker->server, NULL);
	if (worker->registry_id != NULL && *worker->registry_id != '\0')
		g_object_set(made, "registry_id", worker->registry_id, NULL);
	return made;
}

static void set_answer(ThriftStruct *result, const ServiceCall *call, const ServiceAnswer *answer)
{
	const IdRun *run = &answer->run;
	g_autoptr(GPtrArray) values = NULL;
	g_autoptr(GArray) ids = NULL;
	g_autofree guint64 *random = NULL;
	g_autoptr(ThriftStruct) worker = NULL;

	switch (call->method) {
	case COUNTER_GET_ID:
		g_object_set(result, "success", (gint64)id_run_get(run, 0), NULL);
		return;
	case COUNTER_GET_IDS:
		ids = g_array_sized_new(FALSE, FALSE, sizeof(gint64), run->count);
		g_array_set_size(ids, run->count);
		for (guint i = 0; i < run->count; i++)
			g_array_index(ids, gint64, i) = id_run_get(run, i);
		g_object_set(result, "success", ids, NULL);
		return;
	case COUNTER_GET_ID_RUNS: /* one run for each tick */
		values = g_ptr_array_new_with_free_func(g_object_unref);
		for (guint at = 0, count; at < run->count; at += count) {
			count = id_run_in_tick(run, at);
			g_ptr_array_add(values,
					g_object_new(SF_TYPE_ID_RUN, "first", id_run_get(run, at),
						     "count", (gint)count, NULL));
		}
		g_object_set(result, "success", values, NULL);
		return;
	case COUNTER_GET_UUIDS: /* UUIDs of the reserved kind, which contain an ID (uuid.h) */
		values = g_ptr_array_new_with_free_func((GDestroyNotify)g_byte_array_unref);
		random = g_new(guint64, run->count);
		random_fill(run->count, random);
		for (guint i = 0; i < run->count; i++)
			append_bytes(values, uuid_from_id(id_run_get(run, i), random[i]));
		g_object_set(result, "success", values, NULL);
		return;
	case COUNTER_GET_ULIDS:
		values = g_ptr_array_new_with_free_func((GDestroyNotify)g_byte_array_unref);
		for (gint i = 0; i < call->count; i++)
			append_bytes(values, answer->ulids[i]);
		g_object_set(result, "success", values, NULL);
		return;
	case COUNTER_GET_WORKER:
		worker = THRIFT_STRUCT(make_worker(&answer->self));
		g_object_set(result, "success", worker, NULL);
		return;
	case COUNTER_GET_WORKERS:
		values = g_ptr_array_new_with_free_func(g_object_unref);
		for (guint i = 0; i < answer->workers->len; i++)
			g_ptr_array_add(values, make_worker(answer->workers->pdata[i]));
		g_object_set(result, "success", values, NULL);
		return;
	case COUNTER_GET_COUNTERS:
		g_object_set(result, "success", answer->counters, NULL);
		return;
	case COUNTER_GET_WORKER_ID:
	case COUNTER_GET_TIMESTAMP:
	case COUNTER_GET_DATACENTER_ID:
	case COUNTER_OTHER_METHOD:
	case N_COUNTER_METHODS:
	default:
		g_object_set(result, "success", answer->number, NULL);
		return;
	}
}

/* Sets an exception that the method declares. */
static void set_refusal(ThriftStruct *result, const Refusal *refusal)
{
	static const struct {
		const char *field;
		GType (*type)(void);
		gboolean has_retry;
	} EXCEPTIONS[] = {
		[REFUSAL_CLOCK] = {"clock", sf_invalid_system_clock_get_type, FALSE},
		[REFUSAL_AGENT] = {"agent", sf_invalid_user_agent_error_get_type, FALSE},
		[REFUSAL_WORKER] = {"worker", sf_worker_id_unavailable_get_type, TRUE},
		[REFUSAL_COUNT] = {"count_error", sf_invalid_count_get_type, FALSE},
		[REFUSAL_REGISTRY] = {"registry", sf_registry_unavailable_get_type, TRUE},
		[REFUSAL_LAYOUT] = {"layout", sf_unsupported_layout_get_type, FALSE},
	};
	g_autoptr(ThriftStruct) exception =
		g_object_new(EXCEPTIONS[refusal->kind].type(), "message", refusal->message, NULL);

	if (EXCEPTIONS[refusal->kind].has_retry)
		g_object_set(exception, "retry_after_ms", refusal->retry_after_ms, NULL);
	g_object_set(result, EXCEPTIONS[refusal->kind].field, exception, NULL);
}

void thrift_codec_write(ThriftCodec *self, const WireCall *call, ServiceOutcome outcome,
			const ServiceAnswer *answer, RpcPass *pass)
{
	const Method *method = &METHODS[call->call.method];
	const char *name = COUNTER_METHOD_NAMES[call->call.method];
	guint start = byte_writer_begin_frame(pass->out, call->framed);
	ThriftProtocol *protocol = lend_protocol(self, call->protocol, NULL, 0, pass->out);
	g_autoptr(ThriftStruct) result = NULL;
	g_autoptr(GError) error = NULL;

	if (outcome == SERVICE_REFUSED && method->is_legacy) {
		g_autofree char *text = refusal_untyped(&answer->refusal);

		write_exception(protocol, name, call->seqid, APPLICATION_INTERNAL_ERROR, text);
		byte_writer_end_frame(pass->out, call->framed, start);
		return;
	}
	result = g_object_new(method->result(), NULL);
	if (outcome == SERVICE_REFUSED)
		set_refusal(result, &answer->refusal);
	else
		set_answer(result, &call->call, answer);
	if (thrift_protocol_write_message_begin(protocol, name, T_REPLY, call->seqid, &error) < 0 ||
	    thrift_struct_write(result, protocol, &error) < 0 ||
	    thrift_protocol_write_message_end(protocol, &error) < 0)
		g_error("a reply: %s", error->message); /* lint: allow fatal: cannot fail */
	byte_writer_end_frame(pass->out, call->framed, start);
}
