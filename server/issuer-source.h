/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/source.h"

/* A source that issues: IDs are drawn from the generator, which the keeper supplies with leases. */
typedef struct {
	Source source;
	Generator *generator;
	Keeper *keeper; /* borrowed; set by the owner before any call that needs it */
} IssuerSource;

/* (nullable): the issuer that @source is; NULL: it is no issuer. */
IssuerSource *issuer_source_of(Source *source);

/* @generator: borrowed */
void issuer_source_init(IssuerSource *self, Generator *generator);
