/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The constants of Thrift's wire formats, from doc/specs/ in Thrift's sources:
 * thrift-binary-protocol.md, thrift-compact-protocol.md and thrift-rpc.md. The names differ from
 * the names in c_glib's headers, such as T_I64, because some files include both. */

typedef enum {
	WIRE_STRICT,      /* binary, versioned header: first byte 80 */
	WIRE_UNVERSIONED, /* binary, legacy header: first byte 00 */
	WIRE_COMPACT,     /* compact: first byte 82 */
} WireProtocol;

/* Strict binary begins with four bytes: the version, with the type of the message in the last. */
#define STRICT_VERSION      0x80010000u
#define STRICT_VERSION_MASK 0xffff0000u
#define STRICT_TYPE_MASK    0x000000ffu

/* Compact begins with a byte that identifies the protocol. The next byte contains the type in its
 * high bits and the version in its low bits. */
#define COMPACT_PROTOCOL     0x82
#define COMPACT_VERSION      1
#define COMPACT_VERSION_MASK 0x1f
#define COMPACT_TYPE_SHIFT   5

typedef enum {
	MESSAGE_CALL = 1,
	MESSAGE_REPLY = 2,
	MESSAGE_EXCEPTION = 3,
	MESSAGE_ONEWAY = 4,
} MessageType;

/* The types of TApplicationException that this project sends or distinguishes. */
enum {
	APPLICATION_UNKNOWN_METHOD = 1,
	APPLICATION_INTERNAL_ERROR = 6,
	APPLICATION_PROTOCOL_ERROR = 7,
};

/* The types of values in the binary protocol. */
typedef enum {
	BINARY_STOP = 0, /* the end of a struct */
	BINARY_BOOL = 2,
	BINARY_BYTE = 3,
	BINARY_DOUBLE = 4,
	BINARY_I16 = 6,
	BINARY_I32 = 8,
	BINARY_I64 = 10,
	BINARY_STRING = 11,
	BINARY_STRUCT = 12,
	BINARY_MAP = 13,
	BINARY_SET = 14,
	BINARY_LIST = 15,
} BinaryType;

/* The types of values in the compact protocol. The type of a bool field contains its value, and no
 * bytes follow. */
typedef enum {
	COMPACT_STOP = 0,
	COMPACT_TRUE = 1,
	COMPACT_FALSE = 2,
	COMPACT_BYTE = 3,
	COMPACT_I16 = 4,
	COMPACT_I32 = 5,
	COMPACT_I64 = 6,
	COMPACT_DOUBLE = 7,
	COMPACT_STRING = 8,
	COMPACT_LIST = 9,
	COMPACT_SET = 10,
	COMPACT_MAP = 11,
	COMPACT_STRUCT = 12,
} CompactType;
