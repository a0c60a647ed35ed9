/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* How much servers do in a second: what they have counted since they were asked last. */
typedef struct _CtlRates CtlRates;

CtlRates *ctl_rates_new(void);
void ctl_rates_free(CtlRates *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlRates, ctl_rates_free)

/* Sets the rates of @workers, of CtlWorker, as far as they have counts and had some in the call
 * before, or in the last one that they answered. One that has started anew is another one. */
void ctl_rates_take(CtlRates *self, const GPtrArray *workers);
