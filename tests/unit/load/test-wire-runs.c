/* SPDX-License-Identifier: Apache-2.0 */

/* Replies to get_id_runs that are no good ones, though they are Thrift; those that are good are in
 * test-wire.c. */

#include "load/wire.h"
#include "tests/unit/load/hex.h"
#include "tests/unit/unit-test.h"

#define NAME     "6765745f69645f72756e73"
#define RUN_OF_3 "0a 0001 0000000000000005 08 0002 00000003 00"

/* Without a frame, so that their end is to be found. */
TEST("/load-wire-runs/are-errors", are_errors)
{
	static const LoadWireForm forms[] = {
		{.call = LOAD_WIRE_GET_ID_RUNS,
		 .framing = LOAD_WIRE_UNFRAMED,
		 .agent = "a",
		 .count = 3},
		{.call = LOAD_WIRE_GET_ID_RUNS,
		 .framing = LOAD_WIRE_UNFRAMED,
		 .agent = "a",
		 .count = 3,
		 .protocol = LOAD_WIRE_COMPACT},
	};
	static const struct {
		const char *binary;
		const char *compact;
	} lists[] = {
		{"00000000", "0c"},
		{"00000001 0a 0001 0000000000000005 08 0002 00000002 00", "1c 16 0a 15 04 00"},
		{"00000001 0a 0001 0000000000000005 08 0002 00000004 00", "1c 16 0a 15 08 00"},
		{"00000002 " RUN_OF_3 RUN_OF_3, "2c 16 0a 15 06 00 16 0a 15 06 00"},
		{"00000002 " RUN_OF_3 "0a 0001 0000000000000009 08 0002 00000000 00",
		 "2c 16 0a 15 06 00 16 12 15 00 00"},
		{"00000002 0a 0001 0000000000000005 08 0002 00000004 00"
		 "0a 0001 0000000000000009 08 0002 ffffffff 00",
		 "2c 16 0a 15 08 00 16 12 15 01 00"},
		{"00000001 0a 0001 0000000000000005 0a 0002 0000000000000003 00",
		 "1c 16 0a 16 06 00"},
		{"00000001 0a 0001 0000000000000005 08 0003 00000003 00", "1c 16 0a 25 06 00"},
		{"00000001 0a 0001 0000000000000005 00", "1c 16 0a 00"},
		{"00000001 08 0001 00000005 08 0002 00000003 00", "1c 15 0a 15 06 00"},
	};

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(lists); i++) {
		gboolean compact = i % 2 == 1;
		g_autoptr(LoadWire) wire = load_wire_new(&forms[i % 2], 8);
		g_autofree char *hex =
			compact ? g_strdup_printf("8241 8780808004 0b " NAME " 0900 %s 00",
						  lists[i / 2].compact)
				: g_strdup_printf("80010002 0000000b " NAME
						  " 40000007 0f 0000 0c %s 00",
						  lists[i / 2].binary);
		g_autoptr(GByteArray) reply = hex_bytes(hex);
		LoadWireReply parsed;

		g_test_message("%s", hex);
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 7, &parsed), ==,
				LOAD_WIRE_ERROR);
		g_assert_cmpuint(parsed.length, ==, reply->len);
	}
}
