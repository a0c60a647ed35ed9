/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The measured generators. Any thread can use a subject. If a subject cannot return an ID, because
 * the clock stepped back, the program ends with a message.
 */
typedef struct _Subject Subject;

typedef enum {
	SUBJECT_CLOCK,          /* readings of the server's clock instead of IDs */
	SUBJECT_GENERATOR,      /* core/generator, ticks of 1 ms, 22 sequence bits */
	SUBJECT_SECONDS,        /* core/generator, ticks of 1 s, 31 sequence bits */
	SUBJECT_ORIGINAL,       /* the original algorithm with 22 sequence bits */
	SUBJECT_ORIGINAL_12BIT, /* the original algorithm with its 12 sequence bits */
	SUBJECT_ULID,           /* core/ulid, single ULIDs, as 16 bytes */
	SUBJECT_ULID_TEXT,      /* core/ulid, single ULIDs, as text */
	SUBJECT_ULID_MONOTONIC, /* core/ulid, increasing ULIDs of one generator, as 16 bytes */
	SUBJECT_ULID_MONOTONIC_TEXT,
} SubjectKind;

#define SUBJECT_MAX_BATCH 1000

Subject *subject_new(SubjectKind kind);
void subject_free(Subject *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Subject, subject_free)

/* Takes @n_ids IDs, @batch at a time; @n_ids is a multiple of @batch. Returns their sum, so that
 * the compiler must compute each of them. */
guint64 subject_sum(Subject *self, guint batch, guint64 n_ids);

/* Takes IDs like subject_sum(), and writes them to @out_ids in order; for ULIDs, writes the low
 * half. */
void subject_collect(Subject *self, guint batch, guint64 n_ids, gint64 *out_ids);

/* Returns whether the IDs of a thread that subject_collect() writes must increase. */
gboolean subject_increases(SubjectKind kind);
