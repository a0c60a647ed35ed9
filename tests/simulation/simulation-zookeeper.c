/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"
#include "driver.h"

/*
 * Servers that register in ZooKeeper: what docs/uniqueness.md and docs/registration.md promise.
 */

#define LENGTH_US (900 * G_TIME_SPAN_SECOND)
#define IDLE_US   (120 * G_TIME_SPAN_SECOND)

static void end_well(void)
{
	cluster_calm();
	world_run_until(world_now_us() + cluster_recovery_us());
	cluster_check_recovered();
	cluster_check_idle(IDLE_US);
	cluster_clear();
}

static void on_restore(gpointer data, guint64 tag)
{
	if (world_now_us() > LENGTH_US)
		return;
	cluster_restore();
	world_after(world_between(30 * G_TIME_SPAN_SECOND, 200 * G_TIME_SPAN_SECOND), on_restore,
		    data, tag);
}

static void run_everything(void)
{
	const ClusterConfig config = cluster_draw_config();

	cluster_init(&config);
	cluster_start(G_TIME_SPAN_SECOND);
	cluster_begin_faults(world_odds(0.3) ? 200 * G_TIME_SPAN_MILLISECOND
					     : 3 * G_TIME_SPAN_SECOND);
	if (world_odds(0.5))
		world_after(20 * G_TIME_SPAN_SECOND, on_restore, NULL, 0);
	world_run_until(WORLD_BEGIN_US + LENGTH_US);
	end_well();
}

int main(int argc, char **argv)
{
	static const DriverScenario SCENARIOS[] = {
		{.name = "everything", .draw = run_everything},
		{0},
	};

	return driver_main(argc, argv, "simulation-zookeeper", SCENARIOS);
}
