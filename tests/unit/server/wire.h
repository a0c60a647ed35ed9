/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Builds calls in the six wire forms: valid ones as a whole, invalid ones field by field. */
typedef enum {
	FORM_FRAMED_STRICT,
	FORM_FRAMED_COMPACT,
	FORM_FRAMED_UNVERSIONED,
	FORM_UNFRAMED_STRICT,
	FORM_UNFRAMED_COMPACT,
	FORM_UNFRAMED_UNVERSIONED,
	N_FORMS
} WireForm;

/* Returns: (transfer full): a message of @type in the protocol of @form, without its frame. @body:
 * the arguments, to their stop byte. */
GByteArray *wire_message(WireForm form, const char *method, guint8 type, gint32 seqid,
			 const GByteArray *body);

/* Arguments, field by field, with any ID and in any order. */
typedef struct {
	WireForm form;
	gint16 last_id;
	GByteArray *bytes;
} WireBody;

/* wire_body_end() frees its members. */
WireBody wire_body(WireForm form);
void wire_body_text(WireBody *self, gint16 id, const char *text, gsize length);
void wire_body_i32(WireBody *self, gint16 id, gint32 value);

/* Appends a small, well-formed field of another type: the @kind-th of WIRE_BODY_OTHERS. */
#define WIRE_BODY_OTHERS 9
void wire_body_other(WireBody *self, gint16 id, guint kind);

/* Returns: (transfer full): the whole body, including the stop byte. */
GByteArray *wire_body_end(WireBody *self);

/* Returns: (transfer full): the arguments of get_id: @agent in its field, if it is not NULL. */
GByteArray *wire_agent(WireForm form, const char *agent);

/* Appends @message to @out, in a frame if @form has one. */
void wire_append(WireForm form, const GByteArray *message, GByteArray *out);

/* Appends a complete, valid call to get_id. */
void wire_get_id(WireForm form, gint32 seqid, const char *agent, GByteArray *out);
