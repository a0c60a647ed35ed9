/* SPDX-License-Identifier: Apache-2.0 */
#include "server/wide-ids.h"

#include "core/random.h"
#include "core/uuid7.h"

static void append(GPtrArray *out, Uuid uuid)
{
	GByteArray *bytes = g_byte_array_sized_new(UUID_BYTES);

	g_byte_array_set_size(bytes, UUID_BYTES);
	uuid_to_bytes(uuid, bytes->data);
	g_ptr_array_add(out, bytes);
}

void wide_ids_append_uuids(const IdRun *run, GPtrArray *out_uuids)
{
	g_autofree guint64 *random = g_new(guint64, run->count);

	random_fill(run->count, random);
	for (guint i = 0; i < run->count; i++)
		append(out_uuids, uuid7_from_id(id_run_get(run, i), random[i]));
}

gboolean wide_ids_append_ulids(UlidGenerator *generator, guint count, GPtrArray *out_ulids,
			       Refusal *out_refusal)
{
	g_autofree Ulid *ulids = g_new(Ulid, count);
	g_autoptr(GError) error = NULL;

	if (!ulid_generator_draw(generator, count, ulids, &error)) {
		*out_refusal = refusal_of_ulids(error);
		return FALSE;
	}
	for (guint i = 0; i < count; i++)
		append(out_ulids, ulids[i]);
	return TRUE;
}
