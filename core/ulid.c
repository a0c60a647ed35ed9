/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ulid.h"

#include <string.h>

#include "core/random.h"
#include "core/text.h"

#define RANDOM_HIGH_BITS 16 /* number of the 80 random bits that are in the high half */
#define RANDOM_HIGH_MASK ((G_GUINT64_CONSTANT(1) << RANDOM_HIGH_BITS) - 1)
#define TEXT_LENGTH      (ULID_TEXT_SIZE - 1)
#define LARGEST_TEXT     "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"

/* The two digits of each 10-bit number. Encoding pairs takes half as many steps as encoding single
 * digits. */
#define PAIRS(a)                                                                                   \
	a, '0', a, '1', a, '2', a, '3', a, '4', a, '5', a, '6', a, '7', a, '8', a, '9', a, 'A', a, \
		'B', a, 'C', a, 'D', a, 'E', a, 'F', a, 'G', a, 'H', a, 'J', a, 'K', a, 'M', a,    \
		'N', a, 'P', a, 'Q', a, 'R', a, 'S', a, 'T', a, 'V', a, 'W', a, 'X', a, 'Y', a,    \
		'Z'

static const char pairs[2 * 1024] = {
	PAIRS('0'), PAIRS('1'), PAIRS('2'), PAIRS('3'), PAIRS('4'), PAIRS('5'), PAIRS('6'),
	PAIRS('7'), PAIRS('8'), PAIRS('9'), PAIRS('A'), PAIRS('B'), PAIRS('C'), PAIRS('D'),
	PAIRS('E'), PAIRS('F'), PAIRS('G'), PAIRS('H'), PAIRS('J'), PAIRS('K'), PAIRS('M'),
	PAIRS('N'), PAIRS('P'), PAIRS('Q'), PAIRS('R'), PAIRS('S'), PAIRS('T'), PAIRS('V'),
	PAIRS('W'), PAIRS('X'), PAIRS('Y'), PAIRS('Z'),
};

static inline void put_pair(char *out, guint64 bits)
{
	memcpy(out, &pairs[2 * (bits & 1023)], 2);
}

void ulid_to_text(Ulid self, char out_text[static ULID_TEXT_SIZE])
{
	/* this pair has 6 bits of the high half and 4 of the low half */
	guint64 middle = self.high << 4 | self.low >> 60;

	for (int i = 0; i < 6; i++)
		put_pair(&out_text[2 * i], self.high >> (56 - 10 * i));
	put_pair(&out_text[12], middle);
	for (int i = 0; i < 6; i++)
		put_pair(&out_text[14 + 2 * i], self.low >> (50 - 10 * i));
	out_text[TEXT_LENGTH] = '\0';
}

gboolean ulid_parse(const char *text, Ulid *out_ulid, GError **error)
{
	static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	const char *why = strlen(text) != TEXT_LENGTH ? "it has 26 digits" : NULL;
	g_autofree char *shown = NULL;
	Ulid ulid = {0};

	for (int i = 0; why == NULL && i < TEXT_LENGTH; i++) {
		const char *digit = strchr(digits, g_ascii_toupper(text[i]));

		if (digit == NULL) {
			why = "digits are 0-9 and A-Z without I, L, O and U";
			break;
		}
		ulid.high = ulid.high << 5 | ulid.low >> 59;
		ulid.low = ulid.low << 5 | (guint64)(digit - digits);
	}
	if (why == NULL && text[0] > LARGEST_TEXT[0])
		why = "it is above " LARGEST_TEXT;
	if (why == NULL) {
		*out_ulid = ulid;
		return TRUE;
	}
	shown = text_escape(text, strlen(text));
	return id_error_set(error, ID_ERROR_INVALID, "\"%s\" is not a ULID: %s", shown, why);
}

static gboolean check_time(gint64 time_ms, GError **error)
{
	if (time_ms >= 0 && time_ms <= ULID_MAX_TIME_MS)
		return TRUE;
	return id_error_set(error, ID_ERROR_OUT_OF_RANGE,
			    "a ULID cannot have the time %" G_GINT64_FORMAT
			    " ms; it must be 0 to %" G_GINT64_FORMAT,
			    time_ms, ULID_MAX_TIME_MS);
}

gboolean ulid_draw(gint64 time_ms, gsize count, Ulid *out_ulids, GError **error)
{
	if (!check_time(time_ms, error))
		return FALSE;
	/* drawing 128 bits for each ULID is cheaper than extracting 80 bits */
	random_fill(count * (sizeof(Ulid) / sizeof(guint64)), (guint64 *)out_ulids);
	for (gsize i = 0; i < count; i++)
		out_ulids[i].high = (guint64)time_ms << RANDOM_HIGH_BITS |
				    (out_ulids[i].high & RANDOM_HIGH_MASK);
	return TRUE;
}

/* Returns @self + @n, which can belong to the next millisecond. */
static Ulid add_to_ulid(Ulid self, guint64 n)
{
	Ulid sum = {self.high, self.low + n};

	if (sum.low < n)
		sum.high++;
	return sum;
}

/* Finds the first and the last of @count ULIDs, and stores the last in the generator. */
static gboolean reserve_ulids(UuidGenerator *self, gint64 now_ms, gsize count, Ulid *out_first,
			      GError **error)
{
	guint fork_generation = random_fork_generation();
	gint64 time_ms = MAX(now_ms, self->last_ms);
	Ulid first = add_to_ulid(self->last, 1);

	/* after a fork, the other process continues from the same ULID */
	if (time_ms == self->last_ms && fork_generation != self->fork_generation)
		time_ms++;
	if (time_ms > self->last_ms && !ulid_draw(time_ms, 1, &first, error))
		return FALSE;

	Ulid last = add_to_ulid(first, count - 1);

	if (ulid_time_ms(last) != time_ms)
		return id_error_set(error, ID_ERROR_OVERFLOW,
				    "no room for %" G_GSIZE_FORMAT
				    " more ULIDs in millisecond %" G_GINT64_FORMAT
				    "; try again in the next one",
				    count, time_ms);
	self->last_ms = time_ms;
	self->last = last;
	self->fork_generation = fork_generation;
	*out_first = first;
	return TRUE;
}

gboolean ulid_generator_draw(UuidGenerator *self, gsize count, Ulid *out_ulids, GError **error)
{
	gint64 now_ms = clock_now_ms(self->clock);
	Ulid first = {0};

	if (!check_time(now_ms, error))
		return FALSE;
	pthread_mutex_lock(&self->mutex);

	gboolean reserved = reserve_ulids(self, now_ms, count, &first, error);

	pthread_mutex_unlock(&self->mutex);
	for (gsize i = 0; reserved && i < count; i++)
		out_ulids[i] = add_to_ulid(first, i);
	return reserved;
}
