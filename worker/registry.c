/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registry.h"

G_DEFINE_QUARK(registry_error_quark, registry_error)
