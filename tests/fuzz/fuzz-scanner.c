/* SPDX-License-Identifier: Apache-2.0 */

/* Scans any bytes as a message, both at once and byte by byte. The results must be the same. */
#include "common/thrift/scanner.h"
#include "tests/fuzz/fuzz.h"

#define MAX_DEPTH 8
#define MAX_BYTES 1024

static void check_header(const Scanner *whole, const Scanner *piecewise, gsize size)
{
	const MessageHeader *a = scanner_header(whole), *b = scanner_header(piecewise);

	g_assert_cmpint(a->protocol, ==, b->protocol);
	g_assert_cmpuint(a->type, ==, b->type);
	g_assert_cmpint(a->seqid, ==, b->seqid);
	g_assert_cmpuint(a->name_offset, ==, b->name_offset);
	g_assert_cmpuint(a->name_length, ==, b->name_length);
	g_assert_cmpuint(a->arguments_offset, ==, b->arguments_offset);
	g_assert_cmpuint(a->text_offset, ==, b->text_offset);
	g_assert_cmpuint(a->text_length, ==, b->text_length);
	g_assert_cmpuint(a->name_offset + a->name_length, <=, size);
	g_assert_cmpuint(a->text_offset + a->text_length, <=, size);
}

/* While the scanner waits for the rest of a message, its beginning must be valid. */
static void check_beginnings(const guint8 *message, gsize length)
{
	const char *reason;

	for (gsize n = 1; n < length; n++)
		g_assert_true(scanner_may_begin(message, n, length, &reason));
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(Scanner) whole = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);
	g_autoptr(Scanner) piecewise = scanner_new(MAX_DEPTH, SCANNER_MAX_VALUES);
	ScanStatus status, last = SCAN_MORE;

	if (size == 0)
		return 0;
	status = scanner_scan(whole, data, size, MAX_BYTES);
	for (gsize n = 1; n <= size && last == SCAN_MORE; n++)
		last = scanner_scan(piecewise, data, n, MAX_BYTES);
	g_assert_cmpint(status, ==, last);
	if (status == SCAN_BAD_HEADER || status == SCAN_BAD_ARGUMENTS)
		g_assert_cmpstr(scanner_header(whole)->bad, ==, scanner_header(piecewise)->bad);
	if (status == SCAN_DONE || status == SCAN_BAD_ARGUMENTS)
		check_header(whole, piecewise, size);
	if (status == SCAN_DONE) {
		gsize length = scanner_header(whole)->length;

		g_assert_cmpuint(length, ==, scanner_header(piecewise)->length);
		g_assert_cmpuint(length, <=, MIN(size, MAX_BYTES));
		check_beginnings(data, length);
	}
	return 0;
}
