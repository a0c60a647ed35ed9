/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"

/*
 * Who may call: by the address that a client comes from, or by the name in the certificate that it
 * has shown; one of them is enough. Local sockets have the access of their files instead, and are
 * not looked at. Never changed, so any thread may ask.
 */
typedef struct _AllowList AllowList;

/* What a name is written with, as in certificate:billing.example. */
#define ALLOW_LIST_NAME_PREFIX "certificate:"

/**
 * allow_list_parse:
 * @text: with commas between: 192.0.2.7, 10.0.0.0/8, 2001:db8::/32, certificate:NAME; of
 *   ::ffff:192.0.2.7 it is 192.0.2.7
 *
 * Returns: (transfer full): or %NULL with a GOptionError set, which quotes what is wrong
 */
AllowList *allow_list_parse(const char *text, GError **error);

/* (transfer full): @self again; %NULL is let through, here and below: everybody may call. */
AllowList *allow_list_ref(AllowList *self);
void allow_list_unref(AllowList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AllowList, allow_list_unref)

/* As it was written. */
const char *allow_list_text(const AllowList *self);

/* Whether a client may still be let in for the name that it is about to show. */
gboolean allow_list_has_names(const AllowList *self);

/* (transfer full) (nullable): an entry, certificate:NAME, that would admit the client. @tls:
 * (nullable): its connection, after the handshake */
char *allow_list_entry_for(const TlsStream *tls);

/* Whether the client at the other end of @fd may call. @tls: (nullable): on it, hands were shaken
 */
gboolean allow_list_admits(const AllowList *self, int fd, const TlsStream *tls);
