/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/service.h"

/*
 * The less usual replies of the fast path, in strict binary: to the byte as the generated code
 * writes them. Each is appended to @out, in a frame if @framed; @seqid is as it came.
 */

/* A TApplicationException of type 6 (internal error), as the calls of 2010 refuse. */
void strict_reply_exception(const Refusal *refusal, const char *method,
			    const guint8 seqid[static 4], gboolean framed, GByteArray *out);

/* What get_ids and get_id_runs declare for @refusal, which is not one of the REGISTRY. */
void strict_reply_refused_ids(const Refusal *refusal, const char *method,
			      const guint8 seqid[static 4], gboolean framed, GByteArray *out);

/* To get_worker. */
void strict_reply_worker(const ServiceSelf *worker, const guint8 seqid[static 4], gboolean framed,
			 GByteArray *out);
