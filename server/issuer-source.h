/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/source.h"

/* A source that issues IDs itself: they are drawn from the generator, which the keeper supplies
 * with leases. */
typedef struct {
	Source source;
	Generator *generator;
	Keeper *keeper; /* borrowed; the owner sets it before any call that needs it */
} IssuerSource;

/* Returns: (nullable): @source as an issuer; NULL if it is not an issuer. */
IssuerSource *issuer_source_of(Source *source);

/* @generator: borrowed */
void issuer_source_init(IssuerSource *self, Generator *generator);
