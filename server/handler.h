/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/service.h"

/* The handler of an event loop: a codec reads each call, a Service answers it, and the same codec
 * writes the answer. */

/* @config: borrowed, outlives the loops. @fast_path: %FALSE: the Thrift codec reads every call */
RpcService handler_service(ServiceConfig *config, gboolean fast_path);
