/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client.h"
#include "sf_snowflake_later.h"

/* The exceptions that a call can throw: at most one of them is set. */
typedef struct {
	SfInvalidSystemClock *clock;
	SfInvalidUserAgentError *agent;
	SfWorkerIdUnavailable *worker;
	SfInvalidCount *count;
	SfUnsupportedLayout *layout;
	SfRegistryUnavailable *registry;
} Thrown;

G_DEFINE_AUTOPTR_CLEANUP_FUNC(SfWorker, g_object_unref)

GObject *new_client(ThriftProtocol *protocol)
{
	return g_object_new(SF_TYPE_SNOWFLAKE_LATER_CLIENT, "input_protocol", protocol,
			    "output_protocol", protocol, NULL);
}

/* The generated code's error contains only the name of the exception; the exception itself contains
 * the message. */
static void tell(gpointer exception, GError **error)
{
	g_autofree char *message = NULL;

	if (exception == NULL)
		return;
	g_object_get(exception, "message", &message, NULL);
	g_clear_error(error);
	g_set_error_literal(error, g_quark_from_string(G_OBJECT_TYPE_NAME(exception)), 0, message);
	g_object_unref(exception);
}

static gboolean tell_thrown(gboolean success, const Thrown *thrown, GError **error)
{
	if (success)
		return TRUE;
	tell(thrown->clock, error);
	tell(thrown->agent, error);
	tell(thrown->worker, error);
	tell(thrown->count, error);
	tell(thrown->layout, error);
	tell(thrown->registry, error);
	return FALSE;
}

static void show_run(gpointer data, gpointer unused G_GNUC_UNUSED)
{
	const SfIdRun *run = data;

	g_print("first=%" G_GINT64_FORMAT " count=%d\n", run->first, run->count);
}

static void show_bytes(gpointer data, gpointer unused G_GNUC_UNUSED)
{
	const GByteArray *bytes = data;

	for (guint i = 0; i < bytes->len; i++)
		g_print("%02x", bytes->data[i]);
	g_print("\n");
}

static void show_worker(gpointer data, gpointer unused G_GNUC_UNUSED)
{
	const SfWorker *worker = data;

	g_print("datacenter_id=%d worker_id=%d address=%s nonce=%s claimed_at_ms=%" G_GINT64_FORMAT
		" reserved_until_ms=%" G_GINT64_FORMAT " state=%s as_of_ms=%" G_GINT64_FORMAT
		" kind=%s registry_id=%s\n",
		worker->datacenter_id, worker->worker_id, worker->address, worker->nonce,
		worker->claimed_at_ms, worker->reserved_until_ms, worker->state, worker->as_of_ms,
		worker->kind, worker->registry_id);
}

static void show_counter(gpointer name, gpointer number, gpointer unused G_GNUC_UNUSED)
{
	g_print("%s %" G_GINT64_FORMAT "\n", (const char *)name, *(const gint64 *)number);
}

static gboolean get_ids(SfSnowflakeExtendedIf *client, const char *agent, int count, GError **error)
{
	g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(gint64));
	Thrown thrown = {0};
	gboolean success = sf_snowflake_extended_if_get_ids(client, &ids, agent, count,
							    &thrown.clock, &thrown.agent,
							    &thrown.worker, &thrown.count, error);

	for (guint i = 0; i < ids->len; i++)
		g_print("%" G_GINT64_FORMAT "\n", g_array_index(ids, gint64, i));
	return tell_thrown(success, &thrown, error);
}

static gboolean get_id_runs(SfSnowflakeExtendedIf *client, const char *agent, int count,
			    GError **error)
{
	g_autoptr(GPtrArray) runs = g_ptr_array_new_with_free_func(g_object_unref);
	Thrown thrown = {0};
	gboolean success = sf_snowflake_extended_if_get_id_runs(
		client, &runs, agent, count, &thrown.clock, &thrown.agent, &thrown.worker,
		&thrown.count, error);

	g_ptr_array_foreach(runs, show_run, NULL);
	return tell_thrown(success, &thrown, error);
}

static GPtrArray *new_wide(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)g_byte_array_unref);
}

static gboolean get_ulids(SfSnowflakeExtendedIf *client, const char *agent, int count,
			  GError **error)
{
	g_autoptr(GPtrArray) wide = new_wide();
	Thrown thrown = {0};
	gboolean success = sf_snowflake_extended_if_get_ulids(client, &wide, agent, count,
							      &thrown.clock, &thrown.agent,
							      &thrown.worker, &thrown.count, error);

	g_ptr_array_foreach(wide, show_bytes, NULL);
	return tell_thrown(success, &thrown, error);
}

static gboolean get_uuids(SfSnowflakeExtendedIf *client, const char *agent, int count,
			  GError **error)
{
	g_autoptr(GPtrArray) wide = new_wide();
	Thrown thrown = {0};
	gboolean success = sf_snowflake_extended_if_get_uuids(
		client, &wide, agent, count, &thrown.clock, &thrown.agent, &thrown.worker,
		&thrown.count, &thrown.layout, error);

	g_ptr_array_foreach(wide, show_bytes, NULL);
	return tell_thrown(success, &thrown, error);
}

static gboolean get_worker(SfSnowflakeExtendedIf *client, GError **error)
{
	g_autoptr(SfWorker) worker = g_object_new(SF_TYPE_WORKER, NULL);

	if (!sf_snowflake_extended_if_get_worker(client, &worker, error))
		return FALSE;
	show_worker(worker, NULL);
	return TRUE;
}

static gboolean get_workers(SfSnowflakeExtendedIf *client, GError **error)
{
	g_autoptr(GPtrArray) workers = g_ptr_array_new_with_free_func(g_object_unref);
	Thrown thrown = {0};
	gboolean success =
		sf_snowflake_extended_if_get_workers(client, &workers, &thrown.registry, error);

	g_ptr_array_foreach(workers, show_worker, NULL);
	return tell_thrown(success, &thrown, error);
}

static gboolean get_counters(SfSnowflakeExtendedIf *client, GError **error)
{
	g_autoptr(GHashTable) counters =
		g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);

	if (!sf_snowflake_extended_if_get_counters(client, &counters, error))
		return FALSE;
	g_hash_table_foreach(counters, show_counter, NULL);
	return TRUE;
}

static gboolean get_number(GObject *client, const char *method, const char *agent,
			   gint64 *out_number, GError **error)
{
	SfSnowflakeIf *of_2010 = SF_SNOWFLAKE_IF(client);

	if (strcmp(method, "get_id") == 0)
		return sf_snowflake_if_get_id(of_2010, out_number, agent, error);
	if (strcmp(method, "get_worker_id") == 0)
		return sf_snowflake_if_get_worker_id(of_2010, out_number, error);
	if (strcmp(method, "get_datacenter_id") == 0)
		return sf_snowflake_if_get_datacenter_id(of_2010, out_number, error);
	if (strcmp(method, "get_timestamp") == 0)
		return sf_snowflake_if_get_timestamp(of_2010, out_number, error);
	return sf_snowflake_later_if_get_later(SF_SNOWFLAKE_LATER_IF(client), out_number, error);
}

static gboolean get_numbers(GObject *client, const char *method, const char *agent, int count,
			    GError **error)
{
	for (int left = agent != NULL ? count : 1; left > 0; left--) {
		gint64 number = 0;

		if (!get_number(client, method, agent, &number, error))
			return FALSE;
		g_print("%" G_GINT64_FORMAT "\n", number);
	}
	return TRUE;
}

gboolean call(GObject *client, const char *method, const char *agent, int count, GError **error)
{
	SfSnowflakeExtendedIf *extended = SF_SNOWFLAKE_EXTENDED_IF(client);

	if (strcmp(method, "get_ids") == 0)
		return get_ids(extended, agent, count, error);
	if (strcmp(method, "get_id_runs") == 0)
		return get_id_runs(extended, agent, count, error);
	if (strcmp(method, "get_ulids") == 0)
		return get_ulids(extended, agent, count, error);
	if (strcmp(method, "get_uuids") == 0)
		return get_uuids(extended, agent, count, error);
	if (strcmp(method, "get_worker") == 0)
		return get_worker(extended, error);
	if (strcmp(method, "get_workers") == 0)
		return get_workers(extended, error);
	if (strcmp(method, "get_counters") == 0)
		return get_counters(extended, error);
	return get_numbers(client, method, agent, count, error);
}
