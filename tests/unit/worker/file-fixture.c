/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/file-fixture.h"

#include <glib/gstdio.h>

#include "tests/unit/worker/state-fixture.h"
#include "worker/file/registry.h"

#define IDENTITY                                                                                   \
	"{\"format\":1,\"layout\":\"epoch_ms=1288834974657,tick_ms=1,time_bits=41,"                \
	"datacenter_bits=5,worker_bits=5,sequence_bits=12\",\"machine_id\":\"" MACHINE "\"}"

void file_fixture_free(Registry *registry)
{
	registry->ops->free(registry);
}

Registry *file_fixture_registry(const char *directory, const char *nonce)
{
	return file_registry_new(&(FileRegistryConfig){
		.directory = directory,
		.layout = &LAYOUT_TWITTER,
		.datacenter_id = 0,
		.worker_id = 3,
		.nonce = nonce,
		.address = ADDRESS,
		.machine_id = MACHINE,
	});
}

RegistryResult file_fixture_poll(Registry *registry, gint64 now_tick)
{
	RegistryResult result = {.wait_until_tick = -1};
	RegistryResult again;

	g_assert_true(registry->ops->poll(registry, now_tick, &result));
	g_assert_false(registry->ops->poll(registry, now_tick, &again));
	return result;
}

RegistryResult file_fixture_claim(Registry *registry, gint64 now_tick)
{
	registry->ops->claim(registry, LENGTH);
	return file_fixture_poll(registry, now_tick);
}

Reservation file_fixture_claim_well(Registry *registry, gint64 now_tick)
{
	RegistryResult result = file_fixture_claim(registry, now_tick);

	g_assert_no_error(result.error);
	return result.reservation;
}

gint64 file_fixture_extend_well(Registry *registry, gint64 end_tick)
{
	RegistryResult result;

	registry->ops->extend(registry, end_tick);
	result = file_fixture_poll(registry, NOW);
	g_assert_no_error(result.error);
	return result.end_tick;
}

RegistryResult file_fixture_hand_back(Registry *registry, gint64 last_tick)
{
	registry->ops->hand_back(registry, last_tick);
	return file_fixture_poll(registry, NOW);
}

void file_fixture_assert_failed(const RegistryResult *result, RegistryError code,
				const char *message)
{
	g_autoptr(GError) error = result->error;

	g_assert_error(error, REGISTRY_ERROR, (gint)code);
	g_test_message("%s", error->message);
	g_assert_nonnull(strstr(error->message, message));
}

void file_fixture_assert_claim_fails(Registry *registry, RegistryError code, const char *message)
{
	RegistryResult result = file_fixture_claim(registry, NOW);

	file_fixture_assert_failed(&result, code, message);
}

void file_fixture_assert_extend_fails(Registry *registry, RegistryError code, const char *message)
{
	RegistryResult result;

	registry->ops->extend(registry, NOW + 2 * LENGTH);
	result = file_fixture_poll(registry, NOW);
	file_fixture_assert_failed(&result, code, message);
}

char *file_fixture_record_text(gint64 end_tick, const char *owner)
{
	return g_strdup_printf("{\"reserved_until_tick\":%" G_GINT64_FORMAT
			       ",\"owner\":\"%s\",\"address\":\"other:1\"}",
			       end_tick, owner);
}

void file_fixture_write_text(const char *directory, const char *text)
{
	if (!state_fixture_has(directory, "directory.json"))
		state_fixture_write(directory, "directory.json", IDENTITY);
	state_fixture_write(directory, RECORD, text);
}

void file_fixture_write_record(const char *directory, gint64 end_tick, const char *owner)
{
	g_autofree char *text = file_fixture_record_text(end_tick, owner);

	file_fixture_write_text(directory, text);
}

void file_fixture_write_in_place(const char *directory, const char *text)
{
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);
	FILE *file = g_fopen(path, "w");

	g_assert_no_errno(fputs(text, file) < 0 ? -1 : 0);
	g_assert_no_errno(fclose(file));
}
