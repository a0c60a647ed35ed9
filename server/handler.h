/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/service.h"

/* What the event loops serve: each of their calls is read by a codec, answered by a Service, and
 * the answer written by the same codec. */

/* @config: borrowed, outlives the loops. @fast_path: %FALSE: the Thrift codec reads every call */
RpcService handler_service(ServiceConfig *config, gboolean fast_path);
