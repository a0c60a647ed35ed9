/* SPDX-License-Identifier: Apache-2.0 */
#include "client/snowflake-id.h"

#include <string.h>

#include "core/id-text.h"
#include "core/layout.h"
#include "core/random.h"
#include "core/text.h"
#include "core/ulid.h"
#include "core/uuid.h"

G_DEFINE_QUARK(snowflake_id_error_quark, snowflake_id_error)

/* The error codes and forms have the same numbers here as in core/, so they need no translation. */
#define SAME(a, b) G_STATIC_ASSERT((int)(a) == (int)(b))
SAME(ID_ERROR_INVALID, SNOWFLAKE_ID_ERROR_INVALID);
SAME(ID_ERROR_OUT_OF_RANGE, SNOWFLAKE_ID_ERROR_OUT_OF_RANGE);
SAME(ID_ERROR_OVERFLOW, SNOWFLAKE_ID_ERROR_OVERFLOW);
SAME(ID_TEXT_DECIMAL, SNOWFLAKE_ID_DECIMAL);
SAME(ID_TEXT_HEX, SNOWFLAKE_ID_HEX);
SAME(ID_TEXT_CROCKFORD, SNOWFLAKE_ID_CROCKFORD);
SAME(ID_TEXT_BASE62, SNOWFLAKE_ID_BASE62);
SAME(ID_TEXT_BASE58, SNOWFLAKE_ID_BASE58);

struct _SnowflakeLayout {
	Layout layout;
};

struct _SnowflakeUlidGenerator {
	UuidGenerator generator;
};

struct _SnowflakeUuidGenerator {
	UuidGenerator generator;
};

/* Changes the domain of the error to that of this library. Returns: @done */
static gboolean translate_error(gboolean done, GError **error)
{
	if (!done && error != NULL)
		(*error)->domain = SNOWFLAKE_ID_ERROR;
	return done;
}

SnowflakeLayout *snowflake_layout_new(const char *text, GError **error)
{
	g_autoptr(SnowflakeLayout) self = g_new0(SnowflakeLayout, 1);

	if (!translate_error(layout_parse(text, &self->layout, error), error))
		return NULL;
	return g_steal_pointer(&self);
}

void snowflake_layout_free(SnowflakeLayout *self)
{
	g_free(self);
}

char **snowflake_layout_names(void)
{
	g_autoptr(GStrvBuilder) names = g_strv_builder_new();

	for (const LayoutPreset *preset = LAYOUT_PRESETS; preset->name != NULL; preset++)
		g_strv_builder_add(names, preset->name);
	return g_strv_builder_end(names);
}

char *snowflake_layout_to_text(const SnowflakeLayout *self)
{
	return layout_to_string(&self->layout);
}

gboolean snowflake_layout_encode(const SnowflakeLayout *self, const SnowflakeParts *parts,
				 gint64 *out_id, GError **error)
{
	const LayoutParts given = {
		.time_ms = parts->time_ms,
		.datacenter_id = parts->datacenter_id,
		.worker_id = parts->worker_id,
		.sequence = parts->sequence,
	};

	return translate_error(layout_encode(&self->layout, &given, out_id, error), error);
}

gboolean snowflake_layout_decode(const SnowflakeLayout *self, gint64 id, SnowflakeParts *out_parts,
				 GError **error)
{
	if (!translate_error(layout_check_id(&self->layout, id, error), error))
		return FALSE;

	LayoutParts parts = layout_decode(&self->layout, id);

	*out_parts = (SnowflakeParts){
		.time_ms = parts.time_ms,
		.datacenter_id = parts.datacenter_id,
		.worker_id = parts.worker_id,
		.sequence = parts.sequence,
	};
	return TRUE;
}

gboolean snowflake_layout_range(const SnowflakeLayout *self, gint64 from_ms, gint64 to_ms,
				gint64 *out_first, gint64 *out_last, GError **error)
{
	return translate_error(
		layout_range(&self->layout, from_ms, to_ms, out_first, out_last, error), error);
}

char *snowflake_id_to_text(SnowflakeIdForm form, gint64 id)
{
	g_return_val_if_fail(id >= 0, NULL);
	return id_text_encode((IdTextForm)form, id);
}

gboolean snowflake_id_parse(SnowflakeIdForm form, const char *text, gint64 *out_id, GError **error)
{
	return translate_error(id_text_decode((IdTextForm)form, text, out_id, error), error);
}

/* Sets @out_uuid if @done. Returns: @done, with an error of this library set if it is %FALSE */
static gboolean set_uuid(gboolean done, const Uuid *uuid, SnowflakeUuid *out_uuid, GError **error)
{
	if (done)
		uuid_to_bytes(*uuid, out_uuid->bytes);
	return translate_error(done, error);
}

int snowflake_uuid_compare(const SnowflakeUuid *a, const SnowflakeUuid *b)
{
	return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

gint64 snowflake_uuid_get_time_ms(const SnowflakeUuid *self)
{
	return uuid_time_ms(uuid_from_bytes(self->bytes));
}

char *snowflake_uuid_to_text(const SnowflakeUuid *self)
{
	char text[UUID_TEXT_SIZE];

	uuid_to_text(uuid_from_bytes(self->bytes), text);
	return g_strdup(text);
}

gboolean snowflake_uuid_parse(const char *text, SnowflakeUuid *out_uuid, GError **error)
{
	Uuid uuid;
	gboolean done = uuid_parse(text, &uuid, error);

	return set_uuid(done, &uuid, out_uuid, error);
}

gboolean snowflake_uuid_from_id(gint64 id, SnowflakeUuid *out_uuid, GError **error)
{
	if (!translate_error(layout_check_id(&LAYOUT_TWITTER, id, error), error))
		return FALSE;
	uuid_to_bytes(uuid_from_id(id, random_u64()), out_uuid->bytes);
	return TRUE;
}

gboolean snowflake_uuid_to_id(const SnowflakeUuid *self, gint64 *out_id, GError **error)
{
	return translate_error(uuid_to_id(uuid_from_bytes(self->bytes), out_id, error), error);
}

char *snowflake_ulid_to_text(const SnowflakeUlid *self)
{
	char text[ULID_TEXT_SIZE];

	ulid_to_text(uuid_from_bytes(self->bytes), text);
	return g_strdup(text);
}

gboolean snowflake_ulid_parse(const char *text, SnowflakeUlid *out_ulid, GError **error)
{
	Ulid ulid;
	gboolean done = ulid_parse(text, &ulid, error);

	return set_uuid(done, &ulid, out_ulid, error);
}

gboolean snowflake_ulid_random(gint64 time_ms, SnowflakeUlid *out_ulid, GError **error)
{
	Ulid ulid;
	gboolean done = ulid_draw(time_ms, 1, &ulid, error);

	return set_uuid(done, &ulid, out_ulid, error);
}

/* CLOCK_REALTIME, as programs expect. The clock of a server is immune to clock steps, but it needs
 * a thread that disciplines it. */
static gint64 realtime_ns(G_GNUC_UNUSED const Clock *clock)
{
	return g_get_real_time() * 1000;
}

static const Clock realtime = {.now_ns = realtime_ns};

SnowflakeUlidGenerator *snowflake_ulid_generator_new(void)
{
	SnowflakeUlidGenerator *self = g_new0(SnowflakeUlidGenerator, 1);

	uuid_generator_init(&self->generator, &realtime);
	return self;
}

void snowflake_ulid_generator_free(SnowflakeUlidGenerator *self)
{
	if (self == NULL)
		return;
	uuid_generator_clear(&self->generator);
	g_free(self);
}

gboolean snowflake_ulid_generator_draw(SnowflakeUlidGenerator *self, SnowflakeUlid *out_ulid,
				       GError **error)
{
	Ulid ulid;
	gboolean done = ulid_generator_draw(&self->generator, 1, &ulid, error);

	return set_uuid(done, &ulid, out_ulid, error);
}

SnowflakeUuidGenerator *snowflake_uuid_generator_new(void)
{
	SnowflakeUuidGenerator *self = g_new0(SnowflakeUuidGenerator, 1);

	uuid_generator_init(&self->generator, &realtime);
	return self;
}

void snowflake_uuid_generator_free(SnowflakeUuidGenerator *self)
{
	if (self == NULL)
		return;
	uuid_generator_clear(&self->generator);
	g_free(self);
}

gboolean snowflake_uuid_generator_draw(SnowflakeUuidGenerator *self, SnowflakeUuid *out_uuid,
				       GError **error)
{
	Uuid uuid;
	gboolean done = uuid_generator_draw(&self->generator, 1, &uuid, error);

	return set_uuid(done, &uuid, out_uuid, error);
}
