/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>

#include "client/pool/upstream.h"
#include "tests/unit/client/fake-node.h"

/* The pool as a relay uses it, with fake servers. */

#define UPSTREAM_MAX_NODES 4
#define UPSTREAM_OWN_NONCE "the-relay-itself"

typedef struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	guint64 round; /* counts the calls to changed() */
} UpstreamNews;

#define UPSTREAM_NEWS_INIT                                                                         \
	{                                                                                          \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                             \
	}

/* Must be called by changed(). */
void upstream_news_note(gpointer news);

typedef struct {
	UpstreamNews news;
	FakeNode *nodes[UPSTREAM_MAX_NODES + 1]; /* NULL after the last one */
	PoolUpstream *upstream;                  /* NULL if not connected yet */
} UpstreamFixture;

/* Starts the nodes, but no pool, so that a test can configure the nodes before the pool asks them.
 */
void upstream_fixture_set_up(UpstreamFixture *self, gconstpointer n_nodes);
void upstream_fixture_tear_down(UpstreamFixture *self, gconstpointer n_nodes);
void upstream_fixture_connect(UpstreamFixture *self);

gboolean upstream_fixture_is_served(UpstreamFixture *self);

/* Returns the index of the node, of two, that is asked first. Waits until one was asked. */
guint upstream_fixture_first(UpstreamFixture *self);

/* Takes one ID; waits for it. Any thread. */
gint64 upstream_fixture_take(UpstreamFixture *self);

guint64 upstream_news_round(UpstreamNews *self);

/* Waits until changed() is called after this round. */
void upstream_news_wait(UpstreamNews *self, guint64 round);

/* Waits until @condition is true. It is checked again only after each call to changed(), so
 * changed() must be called for the change that the test waits for. */
#define UPSTREAM_WAIT(fixture, condition)                                                          \
	for (guint64 round_ = upstream_news_round(&(fixture)->news); !(condition);                 \
	     round_ = upstream_news_round(&(fixture)->news))                                       \
	upstream_news_wait(&(fixture)->news, round_)
