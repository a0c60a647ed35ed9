/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/foreign.h"

#include <string.h>

#define BODY   "this port speaks Apache Thrift, framed or unframed, binary or compact; not HTTP\n"
#define LENGTH "80"

G_STATIC_ASSERT(sizeof BODY - 1 == 80);

static const ForeignProtocol HTTP = {
	COUNTER_BAD_HTTP,
	"HTTP, not Thrift",
	"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: " LENGTH
	"\r\nConnection: close\r\n\r\n" BODY,
};
static const ForeignProtocol TLS = {COUNTER_BAD_TLS, "TLS, which this port does not speak", NULL};
static const ForeignProtocol PROXY = {COUNTER_BAD_PROXY,
				      "a PROXY header, which this port does not take", NULL};
static const ForeignProtocol THEADER = {COUNTER_BAD_THEADER,
					"THeader, which this port does not speak", NULL};
static const ForeignProtocol JSON = {COUNTER_BAD_JSON, "JSON, which this port does not speak",
				     NULL};
static const ForeignProtocol ZLIB = {COUNTER_BAD_ZLIB, "zlib, which this port does not speak",
				     NULL};

#define BYTES(text) text, sizeof(text) - 1

typedef struct {
	const char *bytes;
	gsize length;
	const ForeignProtocol *protocol;
	gboolean alone;     /* it stands at the very front ... */
	gboolean in_frames; /* ... or after the length of a frame */
} Signature;

/* TLS: a handshake record of any version 3 (RFC 8446, 5.1). PROXY: versions 1 and 2 (haproxy's
 * proxy-protocol.txt, 2). THeader: its magic number (Thrift's HeaderFormat.md). JSON: TJSONProtocol
 * begins a message with [. zlib: a window of 32 KiB at the four levels (RFC 1950, 2.2). */
static const Signature SIGNATURES[] = {
	{BYTES("GET "), &HTTP, TRUE, TRUE},
	{BYTES("HEAD "), &HTTP, TRUE, TRUE},
	{BYTES("POST "), &HTTP, TRUE, TRUE},
	{BYTES("PUT "), &HTTP, TRUE, TRUE},
	{BYTES("DELETE "), &HTTP, TRUE, TRUE},
	{BYTES("CONNECT "), &HTTP, TRUE, TRUE},
	{BYTES("OPTIONS "), &HTTP, TRUE, TRUE},
	{BYTES("TRACE "), &HTTP, TRUE, TRUE},
	{BYTES("PATCH "), &HTTP, TRUE, TRUE},
	{BYTES("PRI "), &HTTP, TRUE, TRUE},
	{BYTES("\x16\3"), &TLS, TRUE, TRUE},
	{BYTES("PROXY "), &PROXY, TRUE, FALSE},
	{BYTES("\r\n\r\n\0\r\nQUIT\n"), &PROXY, TRUE, FALSE},
	{BYTES("\x0f\xff"), &THEADER, FALSE, TRUE},
	{BYTES("["), &JSON, TRUE, TRUE},
	{BYTES("{"), &JSON, TRUE, TRUE},
	{BYTES("x\x01"), &ZLIB, TRUE, TRUE},
	{BYTES("x\x5e"), &ZLIB, TRUE, TRUE},
	{BYTES("x\x9c"), &ZLIB, TRUE, TRUE},
	{BYTES("x\xda"), &ZLIB, TRUE, TRUE},
};

ForeignMatch foreign_find(const guint8 *bytes, gsize length, gboolean framed,
			  const ForeignProtocol **out_protocol)
{
	ForeignMatch match = FOREIGN_UNKNOWN;

	for (gsize i = 0; i < G_N_ELEMENTS(SIGNATURES); i++) {
		const Signature *signature = &SIGNATURES[i];

		if (!(framed ? signature->in_frames : signature->alone) ||
		    memcmp(bytes, signature->bytes, MIN(length, signature->length)) != 0)
			continue;
		if (length >= signature->length) {
			*out_protocol = signature->protocol;
			return FOREIGN_YES;
		}
		match = FOREIGN_MAYBE;
	}
	return match;
}

Counter foreign_counter(const char *reason)
{
	for (gsize i = 0; i < G_N_ELEMENTS(SIGNATURES); i++)
		if (SIGNATURES[i].protocol->reason == reason)
			return SIGNATURES[i].protocol->counter;
	return COUNTER_BAD_THRIFT;
}
