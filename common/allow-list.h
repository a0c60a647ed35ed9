/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "common/tls/stream.h"

/* The clients that may call, identified by their addresses and by the names in their certificates.
 * A client must match at least one entry. Clients of local sockets are not checked, because file
 * permissions protect these sockets. Immutable, so any thread can use it. */
typedef struct {
	char *text; /* from which the list was parsed */
	/* private */
	atomic_int references;
	GPtrArray *masks; /* (element-type GInetAddressMask) */
	GPtrArray *names; /* (element-type utf8) */
} AllowList;

/* The prefix of an entry that is a name, as in certificate:billing.example. */
#define ALLOW_LIST_NAME_PREFIX "certificate:"

/* Returns: (transfer full): the list, or %NULL with a GOptionError set, which quotes the invalid
 * entry
 * @text: entries separated by commas: 192.0.2.7, 10.0.0.0/8, 2001:db8::/32, certificate:NAME.
 * ::ffff:192.0.2.7 is read as 192.0.2.7 */
AllowList *allow_list_parse(const char *text, GError **error);

/* Returns: (transfer full): @self. In all these functions, @self can be %NULL, which means that all
 * clients may call. */
AllowList *allow_list_ref(AllowList *self);
void allow_list_unref(AllowList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AllowList, allow_list_unref)

/* Returns whether the list contains certificate names. If it does, a client can be admitted only
 * after its handshake. */
gboolean allow_list_has_names(const AllowList *self);

/* Returns: (transfer full) (nullable): a certificate:NAME entry that would admit the client. @tls:
 * (nullable): the connection after its handshake */
char *allow_list_entry_for(const TlsStream *tls);

/* Returns whether the client at the other end of @fd may call. @tls: (nullable): after its
 * handshake */
gboolean allow_list_admits(const AllowList *self, int fd, const TlsStream *tls);
