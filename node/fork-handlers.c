/* SPDX-License-Identifier: Apache-2.0 */
#include "node/fork-handlers.h"

#include <pthread.h>

#include "common/fork-gate.h"
#include "common/log.h"
#include "worker/file/disk-call.h"
#include "worker/file/own-descriptors.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before(void)
{
	fork_gate_hold();
	disk_call_hold();
	own_descriptors_hold();
	log_hold_for_fork();
}

static void after_in_parent(void)
{
	log_go_on_after_fork();
	own_descriptors_go_on();
	disk_call_go_on();
	fork_gate_go_on();
}

static void after_in_child(void)
{
	log_go_on_after_fork();
	own_descriptors_close_all();
	disk_call_go_on_in_child();
	fork_gate_go_on_in_child();
}

static void install(void)
{
	/* without memory for it there are no handlers: see the header for what that means */
	pthread_atfork(before, after_in_parent, after_in_child);
}

void fork_handlers_install(void)
{
	pthread_once(&once, install);
}
