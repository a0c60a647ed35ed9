/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/thrift/scanner.h"
#include "tests/unit/unit-test.h"

#define MAX_DEPTH  4
#define MAX_LENGTH 200

/* A literal, which may contain NULs, and its length. */
#define BYTES(literal) (literal), sizeof(literal) - 1

#define STRICT      "\x80\x01\x00\x01\x00\x00\x00\x02hi\x00\x00\x00\x07"
#define UNVERSIONED "\x00\x00\x00\x02hi\x01\x00\x00\x00\x07"
#define COMPACT     "\x82\x21\x07\x02hi"

typedef struct {
	const char *name;
	const char *bytes;
	gsize length;
	ScanStatus status;
	const char *reason; /* part of the reason; NULL if no failure */
} Case;

static const Case CASES[] = {
	/* headers */
	{"nothing", BYTES(""), SCAN_MORE, NULL},
	{"strict", BYTES(STRICT "\0"), SCAN_DONE, NULL},
	{"strict, third byte does not matter", BYTES("\x80\x01\x55\x01\0\0\0\0\0\0\0\7\0"),
	 SCAN_DONE, NULL},
	{"unversioned", BYTES(UNVERSIONED "\0"), SCAN_DONE, NULL},
	{"compact", BYTES(COMPACT "\0"), SCAN_DONE, NULL},
	{"unknown first byte", BYTES("G"), SCAN_BAD_HEADER, "protocol"},
	{"strict, other version", BYTES("\x80\x02\x00\x01"), SCAN_BAD_HEADER, "version"},
	{"compact, other version", BYTES("\x82\x2f"), SCAN_BAD_HEADER, "version"},
	{"strict, negative name", BYTES("\x80\x01\0\1\xff\xff\xff\xff"), SCAN_BAD_HEADER,
	 "negative"},
	{"strict, name beyond the limit", BYTES("\x80\x01\0\1\0\0\1\0"), SCAN_BAD_HEADER, "longer"},
	{"compact, endless varint", BYTES("\x82\x21\xff\xff\xff\xff\xff\xff"), SCAN_BAD_HEADER,
	 "number"},
	{"compact, seqid of five bytes", BYTES("\x82\x21\xff\xff\xff\xff\x0f\0\0"), SCAN_DONE,
	 NULL},
	{"compact, seqid of 33 bits", BYTES("\x82\x21\xff\xff\xff\xff\x1f\0\0"), SCAN_BAD_HEADER,
	 "range"},
	{"compact, name of 2 GiB", BYTES("\x82\x21\x01\xff\xff\xff\xff\x0f"), SCAN_BAD_HEADER,
	 "negative"},
	/* binary values */
	{"all scalars",
	 BYTES(STRICT "\2\0\1\1"
		      "\3\0\2\2"
		      "\4\0\3"
		      "12345678"
		      "\6\0\4"
		      "12"
		      "\10\0\5"
		      "1234"
		      "\12\0\6"
		      "12345678"
		      "\13\0\7\0\0\0\3"
		      "abc\0"),
	 SCAN_DONE, NULL},
	{"empty string", BYTES(STRICT "\13\0\1\0\0\0\0\0"), SCAN_DONE, NULL},
	{"string cut short", BYTES(STRICT "\13\0\1\0\0\0\3ab"), SCAN_MORE, NULL},
	{"string negative", BYTES(STRICT "\13\0\1\xff\xff\xff\xfe"), SCAN_BAD_ARGUMENTS,
	 "negative"},
	{"string beyond the limit", BYTES(STRICT "\13\0\1\0\0\1\0"), SCAN_BAD_ARGUMENTS, "longer"},
	{"type void", BYTES(STRICT "\1\0\1"), SCAN_BAD_ARGUMENTS, "type"},
	{"type beyond all", BYTES(STRICT "\x7f\0\1"), SCAN_BAD_ARGUMENTS, "type"},
	{"struct in struct", BYTES(STRICT "\14\0\1\14\0\1\0\0\0"), SCAN_DONE, NULL},
	{"structs as deep as allowed", BYTES(STRICT "\14\0\1\14\0\1\14\0\1\14\0\1\0\0\0\0\0"),
	 SCAN_DONE, NULL},
	{"one struct deeper", BYTES(STRICT "\14\0\1\14\0\1\14\0\1\14\0\1\14\0\1"),
	 SCAN_BAD_ARGUMENTS, "deep"},
	{"list", BYTES(STRICT "\17\0\1\6\0\0\0\3aabbcc\0"), SCAN_DONE, NULL},
	{"list with an item missing", BYTES(STRICT "\17\0\1\6\0\0\0\3aabb\0"), SCAN_MORE, NULL},
	{"empty list", BYTES(STRICT "\17\0\1\6\0\0\0\0\0"), SCAN_DONE, NULL},
	{"list of voids", BYTES(STRICT "\17\0\1\1\0\0\0\3"), SCAN_BAD_ARGUMENTS, "type"},
	{"list of 2 GiB", BYTES(STRICT "\17\0\1\14\x7f\xff\xff\xff"), SCAN_BAD_ARGUMENTS, "items"},
	{"list negative", BYTES(STRICT "\17\0\1\14\xff\xff\xff\xff"), SCAN_BAD_ARGUMENTS,
	 "negative"},
	{"lists too deep",
	 BYTES(STRICT "\17\0\1"
		      "\17\0\0\0\1\17\0\0\0\1\17\0\0\0\1\17\0\0\0\1\17\0\0\0\1"),
	 SCAN_BAD_ARGUMENTS, "deep"},
	{"set", BYTES(STRICT "\16\0\1\3\0\0\0\2ab\0"), SCAN_DONE, NULL},
	{"map", BYTES(STRICT "\15\0\1\3\6\0\0\0\2abbcdd\0"), SCAN_DONE, NULL},
	{"map with a value missing", BYTES(STRICT "\15\0\1\3\6\0\0\0\2abbc\0"), SCAN_MORE, NULL},
	{"map of structs", BYTES(STRICT "\15\0\1\14\14\0\0\0\1\0\3\0\1x\0\0"), SCAN_DONE, NULL},
	{"map of 2 GiB", BYTES(STRICT "\15\0\1\3\3\x7f\xff\xff\xff"), SCAN_BAD_ARGUMENTS, "items"},
	{"the limit is reached", BYTES(STRICT "\17\0\1\3\0\0\0\xad"), SCAN_MORE, NULL},
	{"the limit is passed by one", BYTES(STRICT "\17\0\1\3\0\0\0\xb8"), SCAN_BAD_ARGUMENTS,
	 "items"},
	/* compact values */
	{"compact scalars",
	 BYTES(COMPACT "\x11\x12\x13"
		       "b\x14\x7f\x15\x7f\x16\x7f\x17"
		       "12345678\x18\3"
		       "abc\0"),
	 SCAN_DONE, NULL},
	{"compact long field ID",
	 BYTES(COMPACT "\x03\xc8\x01"
		       "b\0"),
	 SCAN_DONE, NULL},
	{"compact field ID at its end",
	 BYTES(COMPACT "\x03\xfe\xff\x03"
		       "b\0"),
	 SCAN_DONE, NULL},
	{"compact field ID past its end",
	 BYTES(COMPACT "\x03\xfe\xff\x03"
		       "b\x13"
		       "b\0"),
	 SCAN_BAD_ARGUMENTS, "field ID"},
	{"compact i16 of 17 bits", BYTES(COMPACT "\x14\xff\xff\x07\0"), SCAN_BAD_ARGUMENTS,
	 "range"},
	{"compact i64 of 64 bits", BYTES(COMPACT "\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"),
	 SCAN_DONE, NULL},
	{"compact i64 of 65 bits", BYTES(COMPACT "\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03\0"),
	 SCAN_BAD_ARGUMENTS, "range"},
	{"compact type 13", BYTES(COMPACT "\x1d"), SCAN_BAD_ARGUMENTS, "type"},
	{"compact short list of bools", BYTES(COMPACT "\x19\x21\1\2\0"), SCAN_DONE, NULL},
	{"compact long list",
	 BYTES(COMPACT "\x19\xf3\x10"
		       "0123456789abcdef\0"),
	 SCAN_DONE, NULL},
	{"compact list of 2 GiB", BYTES(COMPACT "\x19\xf5\xff\xff\xff\xff\x07"), SCAN_BAD_ARGUMENTS,
	 "items"},
	{"compact empty map", BYTES(COMPACT "\x1b\0\0"), SCAN_DONE, NULL},
	{"compact map", BYTES(COMPACT "\x1b\1\x33xy\0"), SCAN_DONE, NULL},
	{"compact structs too deep", BYTES(COMPACT "\x1c\x1c\x1c\x1c\x1c"), SCAN_BAD_ARGUMENTS,
	 "deep"},
};

static void check(const Case *expected, Scanner *scanner, ScanStatus status)
{
	g_test_message("%s", expected->name);
	g_assert_cmpint(status, ==, expected->status);
	if (expected->reason != NULL)
		g_assert_nonnull(strstr(scanner_header(scanner)->bad, expected->reason));
	if (status == SCAN_DONE)
		g_assert_cmpuint(scanner_header(scanner)->length, ==, expected->length);
}

/* The bytes arrive at once, and then one at a time. The scanner needs more bytes until the last
 * one, or fails earlier. */
TEST("/scanner/cases", test_cases)
{
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const guint8 *bytes = (const guint8 *)CASES[i].bytes;
		ScanStatus status = SCAN_MORE;

		scanner_reset(scanner);
		check(&CASES[i], scanner,
		      scanner_scan(scanner, bytes, CASES[i].length, MAX_LENGTH));
		scanner_reset(scanner);
		for (gsize n = 1; n <= CASES[i].length && status == SCAN_MORE; n++) {
			/* an exact copy, so that a sanitizer detects reads past the end */
			g_autofree guint8 *copy = g_memdup2(bytes, n);

			status = scanner_scan(scanner, copy, n, MAX_LENGTH);
		}
		check(&CASES[i], scanner, status);
	}
}

/* The scanner does not read past the message. */
TEST("/scanner/length", test_length)
{
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);
	static const char TWO[] = STRICT "\0" COMPACT "\0";
	gsize first = sizeof(STRICT "\0") - 1;

	g_assert_cmpint(scanner_scan(scanner, (const guint8 *)TWO, sizeof TWO - 1, MAX_LENGTH), ==,
			SCAN_DONE);
	g_assert_cmpuint(scanner_header(scanner)->length, ==, first);
	scanner_reset(scanner);
	g_assert_cmpint(scanner_scan(scanner, (const guint8 *)TWO + first, sizeof TWO - 1 - first,
				     MAX_LENGTH),
			==, SCAN_DONE);
	g_assert_cmpuint(scanner_header(scanner)->length, ==, sizeof TWO - 1 - first);
}

TEST("/scanner/header", test_header)
{
	static const struct {
		const char *bytes;
		gsize length;
		WireProtocol protocol;
	} HEADERS[] = {
		{BYTES(STRICT "\0"), WIRE_STRICT},
		{BYTES(UNVERSIONED "\0"), WIRE_UNVERSIONED},
		{BYTES(COMPACT "\0"), WIRE_COMPACT},
	};
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);

	for (gsize i = 0; i < G_N_ELEMENTS(HEADERS); i++) {
		const guint8 *bytes = (const guint8 *)HEADERS[i].bytes;
		const MessageHeader *header = scanner_header(scanner);

		scanner_reset(scanner);
		g_assert_cmpint(scanner_scan(scanner, bytes, HEADERS[i].length, MAX_LENGTH), ==,
				SCAN_DONE);
		g_assert_cmpint(header->protocol, ==, HEADERS[i].protocol);
		g_assert_cmpint(header->type, ==, MESSAGE_CALL);
		g_assert_cmpint(header->seqid, ==, 7);
		g_assert_cmpmem(bytes + header->name_offset, header->name_length, "hi", 2);
		g_assert_cmpuint(header->arguments_offset, ==, HEADERS[i].length - 1);
	}
}

/* Returns the first string in a field 1, at any position. */
TEST("/scanner/text", test_text)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *text;
	} MESSAGES[] = {
		{BYTES(STRICT "\0"), NULL},
		{BYTES(STRICT "\13\0\2\0\0\0\1x\10\0\1\0\0\0\1\0"), NULL},
		{BYTES(STRICT "\17\0\1\13\0\0\0\1\0\0\0\1x\0"), NULL},
		{BYTES(STRICT "\13\0\1\0\0\0\0\0"), ""},
		{BYTES(STRICT "\10\0\2\0\0\0\6\13\0\1\0\0\0\3oop\13\0\1\0\0\0\1x\0"), "oop"},
		{BYTES(STRICT "\14\0\2\13\0\3\0\0\0\1x\13\0\1\0\0\0\3oop\0\0"), "oop"},
		{BYTES(COMPACT "\x2c\x18\3oop\0\0"), "oop"},
	};
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);
	const MessageHeader *header = scanner_header(scanner);

	for (gsize i = 0; i < G_N_ELEMENTS(MESSAGES); i++) {
		const guint8 *bytes = (const guint8 *)MESSAGES[i].bytes;
		const char *text = MESSAGES[i].text;

		scanner_reset(scanner);
		g_assert_cmpint(scanner_scan(scanner, bytes, MESSAGES[i].length, MAX_LENGTH), ==,
				SCAN_DONE);
		g_assert_true((header->text_offset > 0) == (text != NULL));
		if (text != NULL)
			g_assert_cmpmem(bytes + header->text_offset, header->text_length, text,
					strlen(text));
	}
}

/* A message of exactly the maximum size, and one of a byte more. */
TEST("/scanner/limit", test_limit)
{
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);
	g_autoptr(GByteArray) message = g_byte_array_new();

	g_byte_array_append(message, (const guint8 *)STRICT "\13\0\1\0\0\0\xb3", 21);
	g_byte_array_set_size(message, MAX_LENGTH + 1);
	memset(message->data + 21, 0, MAX_LENGTH + 1 - 21);
	message->data[20] = MAX_LENGTH - 22;
	g_assert_cmpint(scanner_scan(scanner, message->data, message->len, MAX_LENGTH), ==,
			SCAN_DONE);
	g_assert_cmpuint(scanner_header(scanner)->length, ==, MAX_LENGTH);
	scanner_reset(scanner);
	message->data[20] = MAX_LENGTH - 21;
	g_assert_cmpint(scanner_scan(scanner, message->data, message->len, MAX_LENGTH), ==,
			SCAN_BAD_ARGUMENTS);
}

/* Returns a list of @items bools, which is a value itself, and @values small fields after it. */
static GByteArray *message_of(guint items, guint values)
{
	GByteArray *message = g_byte_array_new();

	g_byte_array_append(message, (const guint8 *)STRICT "\17\0\1\2\0\0", 20);
	g_byte_array_append(message, (const guint8[]){(guint8)(items >> 8), (guint8)items}, 2);
	g_byte_array_set_size(message, message->len + items);
	memset(message->data + message->len - items, 1, items);
	for (guint i = 0; i < values; i++)
		g_byte_array_append(message, (const guint8 *)"\2\0\1\1", 4);
	g_byte_array_append(message, (const guint8 *)"", 1);
	return message;
}

/* A message with the maximum number of values, nested in any way, and one with one more. */
TEST("/scanner/values", test_values)
{
	static const struct {
		guint items, values;
	} MIXES[] = {{SCANNER_MAX_VALUES - 1, 0}, {0, SCANNER_MAX_VALUES - 1}, {100, 155}};
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);

	G_STATIC_ASSERT(SCANNER_MAX_VALUES == 256);
	for (gsize i = 0; i < G_N_ELEMENTS(MIXES); i++) {
		g_autoptr(GByteArray) most = message_of(MIXES[i].items, MIXES[i].values);
		g_autoptr(GByteArray) more = message_of(MIXES[i].items + 1, MIXES[i].values);

		scanner_reset(scanner);
		g_assert_cmpint(scanner_scan(scanner, most->data, most->len, 10000), ==, SCAN_DONE);
		scanner_reset(scanner);
		g_assert_cmpint(scanner_scan(scanner, more->data, more->len, 10000), ==,
				SCAN_BAD_ARGUMENTS);
		g_assert_nonnull(strstr(scanner_header(scanner)->bad, "values"));
	}
}
