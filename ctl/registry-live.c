/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/registry-live.h"

#include <stdio.h>
#include <unistd.h>

#include "ctl/format.h"

#define LOOK_AGAIN_US  (200 * G_TIME_SPAN_MILLISECOND)
#define TELL_AGAIN_US  (5 * G_TIME_SPAN_SECOND) /* where lines stay */
#define MARGIN_MS      1000
#define MAX_COMPLAINED 20
#define CLEAR_LINE     "\r\033[K"

/* How long it waits, and what it has said of that. */
typedef struct {
	gint64 until_us; /* monotonic, as the others */
	gint64 told_us;  /* 0: nothing */
	guint told;      /* claims */
	gboolean on_terminal;
} Wait;

guint ctl_registry_live_count(const CtlRegistryTree *tree)
{
	guint n = 0;

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		n += datacenter->claims->len;
	}
	return n;
}

/* The longest time that one of the claims outlives its server. ZooKeeper looks for sessions that
 * have ended once a tick, and a session is at least two ticks long. */
static gint64 longest_ms(const CtlRegistryTree *tree)
{
	gint64 timeout_ms = 0;

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++) {
			const CtlClaim *claim = datacenter->claims->pdata[j];
			gint64 stated_ms = claim->record.session_timeout_ms;

			timeout_ms = MAX(timeout_ms,
					 stated_ms > 0 ? stated_ms : ZNODES_MAX_SESSION_TIMEOUT_MS);
		}
	}
	return timeout_ms + timeout_ms / 2 + MARGIN_MS;
}

static void tell(Wait *self, guint n_claims)
{
	gint64 now_us = g_get_monotonic_time();
	gint64 left_s =
		(MAX(self->until_us - now_us, 0) + G_TIME_SPAN_SECOND - 1) / G_TIME_SPAN_SECOND;

	if (self->told_us != 0 && (n_claims == self->told ||
				   (!self->on_terminal && now_us - self->told_us < TELL_AGAIN_US)))
		return;
	fprintf(stderr,
		"%s%u claim%s left; within %" G_GINT64_FORMAT " s those of servers that are gone "
		"go too: waiting%s",
		self->on_terminal ? CLEAR_LINE : "", n_claims, n_claims == 1 ? " is" : "s are",
		left_s, self->on_terminal ? "" : "\n");
	fflush(stderr);
	self->told_us = now_us;
	self->told = n_claims;
}

CtlRegistryTree *ctl_registry_live_wait(CtlZookeeper *zookeeper, const char *root, GError **error)
{
	g_autoptr(CtlRegistryTree) tree = ctl_registry_tree_read(zookeeper, root, FALSE, error);
	Wait wait = {.on_terminal = isatty(STDERR_FILENO)};

	if (tree == NULL)
		return NULL;
	wait.until_us = g_get_monotonic_time() + longest_ms(tree) * G_TIME_SPAN_MILLISECOND;
	while (tree != NULL && ctl_registry_live_count(tree) > 0 &&
	       g_get_monotonic_time() < wait.until_us) {
		tell(&wait, ctl_registry_live_count(tree));
		g_usleep(LOOK_AGAIN_US);
		ctl_registry_tree_free(tree);
		tree = ctl_registry_tree_read(zookeeper, root, FALSE, error);
	}
	if (wait.told_us != 0 && wait.on_terminal)
		fputs(CLEAR_LINE, stderr);
	return g_steal_pointer(&tree);
}

static void complain_of(const CtlDatacenter *datacenter, const CtlClaim *claim)
{
	g_autofree char *address =
		claim->damage == NULL ? claim_record_address(&claim->record) : NULL;
	g_autofree char *shown = ctl_format_address(address);
	g_autofree char *worker = claim->record.worker_id >= 0
					  ? g_strdup_printf("%d", claim->record.worker_id)
					  : g_strdup("-");

	fprintf(stderr, "  datacenter %u  worker %s  %s\n", datacenter->datacenter_id, worker,
		shown);
}

void ctl_registry_live_complain(const CtlRegistryTree *tree)
{
	guint n = 0;

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++, n++) {
			if (n < MAX_COMPLAINED)
				complain_of(datacenter, datacenter->claims->pdata[j]);
		}
	}
	if (n > MAX_COMPLAINED)
		fprintf(stderr, "  and %u more\n", n - MAX_COMPLAINED);
}
