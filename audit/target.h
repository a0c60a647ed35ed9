/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/address.h"

/*
 * Where an audit log goes, as an operator writes it:
 *
 *   file:PATH                          an absolute path
 *   scribe://HOST[:PORT][/CATEGORY]    port 1463 and category "snowflake", if they are left out
 */
typedef struct {
	char *text;       /* as it was given */
	char *path;       /* NULL: a server of Scribe */
	Address *address; /* NULL: a file */
	char *category;   /* NULL: a file */
} AuditTarget;

/* (transfer full) (nullable): or %NULL with a GOptionError set, which quotes @text and says what to
 * write. Nothing is opened or looked up. */
AuditTarget *audit_target_parse(const char *text, GError **error);
void audit_target_free(AuditTarget *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AuditTarget, audit_target_free)
