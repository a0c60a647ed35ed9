/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Creates, reads and removes state directories for tests. */

/* Returns: (transfer full): an empty directory for this test. */
char *state_fixture_new(void);
/* Removes the directory with its contents. */
void state_fixture_free(char *directory);

typedef char StateFixture;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StateFixture, state_fixture_free)

/* Returns the end of the reservation in a record, or -1 if there is none. */
gint64 state_fixture_record_end(const char *directory, const char *name);

/* Returns: (transfer full): the contents of a file. */
char *state_fixture_read(const char *directory, const char *name);
void state_fixture_write(const char *directory, const char *name, const char *text);
gboolean state_fixture_has(const char *directory, const char *name);
/* Returns the number of names in the directory that end in @suffix. */
guint state_fixture_count(const char *directory, const char *suffix);
