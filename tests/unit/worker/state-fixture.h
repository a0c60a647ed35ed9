/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Creates, reads and removes state directories for tests. */

/* Returns: (transfer full): an empty directory of this test's own. */
char *state_fixture_new(void);
/* Removes it with all that is in it. */
void state_fixture_free(char *directory);

typedef char StateFixture;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StateFixture, state_fixture_free)

/* The end that stands in a record, or -1 if there is none. */
gint64 state_fixture_record_end(const char *directory, const char *name);

/* Returns: (transfer full): what a file holds. */
char *state_fixture_read(const char *directory, const char *name);
void state_fixture_write(const char *directory, const char *name, const char *text);
gboolean state_fixture_has(const char *directory, const char *name);
/* How many entries of the directory end in @suffix. */
guint state_fixture_count(const char *directory, const char *suffix);
