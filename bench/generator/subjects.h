/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What is measured. Any thread may use a subject. If one cannot give an ID, because the clock
 * stepped back, the program ends with a message.
 */
typedef struct _Subject Subject;

typedef enum {
	SUBJECT_CLOCK,          /* readings of the server's clock: they take the place of IDs */
	SUBJECT_GENERATOR,      /* core/generator, ticks of 1 ms, 22 sequence bits */
	SUBJECT_SECONDS,        /* core/generator, ticks of 1 s, 31 sequence bits */
	SUBJECT_ORIGINAL,       /* the algorithm of 2010 with 22 sequence bits */
	SUBJECT_ORIGINAL_12BIT, /* with its own 12 */
	SUBJECT_ULID,           /* core/ulid, each by itself, as 16 bytes */
	SUBJECT_ULID_TEXT,      /* likewise, as text */
	SUBJECT_ULID_MONOTONIC, /* from one generator, as 16 bytes */
	SUBJECT_ULID_MONOTONIC_TEXT,
} SubjectKind;

#define SUBJECT_MAX_BATCH 1000

Subject *subject_new(SubjectKind kind);
void subject_free(Subject *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Subject, subject_free)

/* Takes @n_ids IDs, @batch at a time, of which @n_ids is a multiple. Returns their sum, which is
 * there so that each of them must be computed. */
guint64 subject_sum(Subject *self, guint batch, guint64 n_ids);

/* Likewise, and writes them to @out_ids in the order in which they came; of a ULID the low half. */
void subject_collect(Subject *self, guint batch, guint64 n_ids, gint64 *out_ids);

/* Whether a thread's IDs increase, as subject_collect() writes them. */
gboolean subject_increases(SubjectKind kind);
