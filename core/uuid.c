/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uuid.h"

#include <string.h>

#include "core/layout.h"
#include "core/random.h"
#include "core/text.h"

Uuid uuid_random(void)
{
	Uuid self;

	random_from_kernel(&self, sizeof(self));
	self.high = (self.high & ~G_GUINT64_CONSTANT(0xf000)) | 0x4000;
	self.low = self.low >> 2 | G_GUINT64_CONSTANT(1) << 63;
	return self;
}

void uuid_to_bytes(Uuid self, guint8 out_bytes[static UUID_BYTES])
{
	const guint64 halves[] = {GUINT64_TO_BE(self.high), GUINT64_TO_BE(self.low)};

	memcpy(out_bytes, halves, UUID_BYTES);
}

Uuid uuid_from_bytes(const guint8 bytes[static UUID_BYTES])
{
	guint64 halves[2];

	memcpy(halves, bytes, UUID_BYTES);
	return (Uuid){GUINT64_FROM_BE(halves[0]), GUINT64_FROM_BE(halves[1])};
}

void uuid_to_text(Uuid self, char out_text[static UUID_TEXT_SIZE])
{
	g_snprintf(out_text, UUID_TEXT_SIZE, "%08x-%04x-%04x-%04x-%04x%08x",
		   (guint)(self.high >> 32), (guint)(self.high >> 16 & 0xffff),
		   (guint)(self.high & 0xffff), (guint)(self.low >> 48),
		   (guint)(self.low >> 32 & 0xffff), (guint)(self.low & G_MAXUINT32));
}

gboolean uuid_parse(const char *text, Uuid *out_uuid, GError **error)
{
	g_autofree char *shown = NULL;
	Uuid uuid = {0};

	if (!g_uuid_string_is_valid(text)) {
		shown = text_escape(text, strlen(text));
		return id_error_set(
			error, ID_ERROR_INVALID,
			"\"%s\" is not a UUID; a UUID consists of hexadecimal digits in groups "
			"of 8-4-4-4-12",
			shown);
	}
	for (const char *c = text; *c != '\0'; c++)
		if (*c != '-') {
			uuid.high = uuid.high << 4 | uuid.low >> 60;
			uuid.low = uuid.low << 4 | (guint64)g_ascii_xdigit_value(*c);
		}
	*out_uuid = uuid;
	return TRUE;
}

/* Version 7 */

#define UUID_VERSION   7
#define VARIANT        2 /* the variant of RFC 9562 */
#define RAND_A_BITS    12
#define RAND_B_BITS    62
#define COUNTER_B_BITS (UUID_COUNTER_BITS - RAND_A_BITS)

/* The number of bits below the time in LAYOUT_TWITTER, and how many of them are in rand_b. */
#define ID_LOW_BITS 22
#define ID_B_BITS   (ID_LOW_BITS - RAND_A_BITS)

static guint64 low_bits(guint64 number, guint bits)
{
	return number & ((G_GUINT64_CONSTANT(1) << bits) - 1);
}

/* Stores @fixed in rand_a, and its low @fixed_b_bits in the top bits of rand_b. */
static Uuid assemble_uuid(gint64 time_ms, guint64 fixed, guint fixed_b_bits, guint64 random)
{
	guint random_bits = RAND_B_BITS - fixed_b_bits;

	return (Uuid){
		.high = (guint64)time_ms << 16 | UUID_VERSION << RAND_A_BITS |
			fixed >> fixed_b_bits,
		.low = (guint64)VARIANT << RAND_B_BITS |
		       low_bits(fixed, fixed_b_bits) << random_bits | low_bits(random, random_bits),
	};
}

Uuid uuid_from_id(gint64 id, guint64 random)
{
	return assemble_uuid(layout_decode(&LAYOUT_TWITTER, id).time_ms,
			     low_bits((guint64)id, ID_LOW_BITS), ID_B_BITS, random);
}

gboolean uuid_to_id(Uuid uuid, gint64 *out_id, GError **error)
{
	guint version = (guint)low_bits(uuid.high >> RAND_A_BITS, 4);
	gint64 tick = layout_tick_at(&LAYOUT_TWITTER, uuid_time_ms(uuid));

	if (version != UUID_VERSION || uuid.low >> RAND_B_BITS != VARIANT)
		return id_error_set(error, ID_ERROR_INVALID,
				    "only a version 7 UUID can contain an ID; this one has "
				    "version %u and variant bits %u%u",
				    version, (guint)(uuid.low >> 63), (guint)(uuid.low >> 62) & 1);
	if (tick < 0 || tick > layout_max_tick(&LAYOUT_TWITTER))
		return id_error_set(error, ID_ERROR_OUT_OF_RANGE,
				    "the UUID's time, %" G_GINT64_FORMAT
				    " ms, is outside the layout's range, %" G_GINT64_FORMAT
				    " to %" G_GINT64_FORMAT " ms: it was not made from an ID",
				    uuid_time_ms(uuid), LAYOUT_TWITTER.epoch_ms,
				    LAYOUT_TWITTER.epoch_ms + layout_max_tick(&LAYOUT_TWITTER));
	*out_id = (gint64)((guint64)tick << ID_LOW_BITS |
			   low_bits(uuid.high, RAND_A_BITS) << ID_B_BITS |
			   low_bits(uuid.low >> (RAND_B_BITS - ID_B_BITS), ID_B_BITS));
	return TRUE;
}

void uuid_generator_init(UuidGenerator *self, const Clock *clock)
{
	*self = (UuidGenerator){.clock = clock, .last_ms = -1};
	pthread_mutex_init(&self->mutex, NULL);
}

void uuid_generator_clear(UuidGenerator *self)
{
	pthread_mutex_destroy(&self->mutex);
}

gboolean uuid_generator_draw(UuidGenerator *self, gsize count, Uuid *out_uuids, GError **error)
{
	gint64 now_ms = clock_now_ms(self->clock);
	guint fork_generation;
	gint64 time_ms;
	guint64 first;

	if (now_ms < 0)
		return id_error_set(error, ID_ERROR_OUT_OF_RANGE,
				    "a version 7 UUID cannot have the time %" G_GINT64_FORMAT
				    " ms; it must be 0 or more; set the clock",
				    now_ms);
	pthread_mutex_lock(&self->mutex);
	fork_generation = random_fork_generation();
	time_ms = MAX(now_ms, self->last_ms);
	first = self->last.low + 1;
	/* after a fork, the other process continues from the same UUID */
	if (time_ms == self->last_ms &&
	    (fork_generation != self->fork_generation ||
	     first + count > G_GUINT64_CONSTANT(1) << UUID_COUNTER_BITS))
		time_ms++;
	if (time_ms > self->last_ms)
		first = low_bits(random_u64(), UUID_COUNTER_BITS - 1);
	self->last_ms = time_ms;
	self->last.low = first + count - 1;
	self->fork_generation = fork_generation;
	pthread_mutex_unlock(&self->mutex);
	for (gsize i = 0; i < count; i++)
		out_uuids[i] = assemble_uuid(time_ms, first + i, COUNTER_B_BITS, random_u64());
	return TRUE;
}
