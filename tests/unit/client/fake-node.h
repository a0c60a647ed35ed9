/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A fake server that issues IDs and behaves as the test sets. Any thread. */
typedef struct _FakeNode FakeNode;

typedef enum {
	FAKE_NODE_SERVES,
	FAKE_NODE_HANGS, /* calls for IDs wait until the behaviour changes */
	FAKE_NODE_AWAY,  /* each call closes its connection */
} FakeNodeManner;

/* Calls that it does not know; a legacy server knows none of these. */
typedef enum {
	FAKE_NODE_LACKS_RUNS = 1 << 0,
	FAKE_NODE_LACKS_IDS = 1 << 1,
	FAKE_NODE_LACKS_WORKER = 1 << 2,
	FAKE_NODE_LACKS_WORKERS = 1 << 3,
	FAKE_NODE_OF_2010 = 15,
} FakeNodeLacks;

/* Its IDs begin with (worker_id + 1) << 40. Its datacenter ID is 3. */
FakeNode *fake_node_new(guint worker_id);
void fake_node_free(FakeNode *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FakeNode, fake_node_free)

const char *fake_node_text(const FakeNode *self);

void fake_node_set_manner(FakeNode *self, FakeNodeManner manner);
void fake_node_set_lacks(FakeNode *self, FakeNodeLacks lacks);
void fake_node_set_max_batch(FakeNode *self, guint max_batch); /* 10000 unless set */
/* Whether a refusal of a count names max_batch; FALSE unless set. */
void fake_node_set_tells_limit(FakeNode *self, gboolean tells_limit);
/* Whether each reply contains the same IDs; FALSE unless set. */
void fake_node_set_repeats(FakeNode *self, gboolean repeats);
/* Number of the next replies whose IDs are FAKE_NODE_LOW_OFFSET lower; 0 unless set. */
#define FAKE_NODE_LOW_OFFSET (G_GINT64_CONSTANT(1) << 30)
void fake_node_set_n_low(FakeNode *self, guint n_low);
void fake_node_set_nonce(FakeNode *self, const char *nonce); /* static; its address unless set */
void fake_node_set_kind(FakeNode *self, const char *kind);   /* static; none unless set */
void fake_node_set_registry_id(FakeNode *self, const char *registry_id); /* as kind */
void fake_node_set_worker_id(FakeNode *self, guint worker_id);
void fake_node_set_next_id(FakeNode *self, gint64 next_id);
/* length of its list; 3 unless set */
void fake_node_set_n_workers(FakeNode *self, guint n_workers);
void fake_node_set_state(FakeNode *self, const char *state); /* static; "serving" unless set */
/* 0, which means not reported, unless set */
void fake_node_set_as_of_ms(FakeNode *self, gint64 as_of_ms);

/* Returns the number of calls of @method. */
guint fake_node_calls(FakeNode *self, const char *method);
void fake_node_wait_for_calls(FakeNode *self, const char *method, guint calls);

/* Returns: (transfer full) (element-type guint): number of IDs per call; 1 for get_id */
GArray *fake_node_counts(FakeNode *self);
