/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <openssl/ssl.h>

#include "common/tls/context.h"

/* (transfer full) (nullable): %NULL: there is no memory. */
SSL *tls_context_private_ssl(const TlsContext *self);
