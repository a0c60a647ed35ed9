/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/file-fixture.h"
#include "tests/unit/worker/state-fixture.h"
#include "worker/file/registry.h"

/* Two worker IDs. */
#define SMALL                                                                                      \
	{                                                                                          \
		.epoch_ms = 0, .tick_ms = 1, .time_bits = 41, .worker_bits = 1,                    \
		.sequence_bits = 12                                                                \
	}

static Registry *any_registry(const char *directory, const Layout *layout, const char *nonce)
{
	return file_registry_new(&(FileRegistryConfig){
		.directory = directory,
		.layout = layout,
		.worker_id = -1,
		.nonce = nonce,
		.address = ADDRESS,
		.machine_id = MACHINE,
	});
}

static void test_lowest_free(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) pinned = file_fixture_registry(directory, "pinned"); /* worker 3 */
	Registry *registries[5];
	static const guint EXPECTED[] = {0, 1, 2, 4, 5};

	file_fixture_claim_well(pinned, NOW);
	for (guint i = 0; i < G_N_ELEMENTS(registries); i++) {
		registries[i] = any_registry(directory, &LAYOUT_TWITTER, "n");
		g_assert_cmpuint(file_fixture_claim_well(registries[i], NOW).worker_id, ==,
				 EXPECTED[i]);
	}
	for (guint i = 0; i < G_N_ELEMENTS(registries); i++)
		file_fixture_free(registries[i]);
}

/* What one that was killed had reserved is left alone, as long as there is another. */
static void test_reserved_last(void)
{
	const Layout layout = SMALL;
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) killed = any_registry(directory, &layout, "n1");
	g_autoptr(Registry) second = any_registry(directory, &layout, "n2");
	g_autoptr(Registry) third = any_registry(directory, &layout, "n3");
	Reservation reservation;

	g_assert_cmpuint(file_fixture_claim_well(killed, NOW).worker_id, ==, 0);
	g_clear_pointer(&killed, file_fixture_free);
	g_assert_cmpuint(file_fixture_claim_well(second, NOW + 1).worker_id, ==, 1);
	reservation = file_fixture_claim_well(third, NOW + 1);
	g_assert_cmpuint(reservation.worker_id, ==, 0);
	g_assert_cmpint(reservation.first_tick, ==, NOW + LENGTH + 1);
}

static void test_none_free(void)
{
	const Layout layout = SMALL;
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) first = any_registry(directory, &layout, "n1");
	g_autoptr(Registry) second = any_registry(directory, &layout, "n2");
	g_autoptr(Registry) third = any_registry(directory, &layout, "n3");
	RegistryResult result;

	file_fixture_claim_well(first, NOW);
	file_fixture_claim_well(second, NOW);
	result = file_fixture_claim(third, NOW);
	g_assert_cmpint(result.wait_until_tick, ==, NOW + LENGTH);
	file_fixture_assert_failed(&result, REGISTRY_ERROR_WAIT,
				   "none of the 2 worker IDs of datacenter 0 is free in ");

	/* it has kept nobody from anything */
	file_fixture_hand_back(second, NOW);
	g_clear_pointer(&second, file_fixture_free);
	second = any_registry(directory, &layout, "n4");
	g_assert_cmpuint(file_fixture_claim_well(second, NOW + 1).worker_id, ==, 1);
}

static void test_damaged(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autoptr(Registry) first = any_registry(directory, &LAYOUT_TWITTER, "n1");
	g_autoptr(Registry) second = any_registry(directory, &LAYOUT_TWITTER, "n2");

	file_fixture_claim_well(first, NOW);
	g_clear_pointer(&first, file_fixture_free);
	state_fixture_write(directory, "worker-0-0.json", "{");
	g_assert_cmpuint(file_fixture_claim_well(second, NOW + LENGTH + 1).worker_id, ==, 1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/file-registry-any/lowest-free", test_lowest_free);
	g_test_add_func("/file-registry-any/reserved-last", test_reserved_last);
	g_test_add_func("/file-registry-any/none-free", test_none_free);
	g_test_add_func("/file-registry-any/damaged", test_damaged);
	return g_test_run();
}
