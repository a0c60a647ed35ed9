// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Thrift's framed binary protocol with the strict header, as far as the calls for IDs need it.

const (
	maxFrame = 1 << 20 // bytes: five times the longest reply
	maxDepth = 16      // of values that are skipped
	maxBatch = 10000   // IDs of one call
	version  = 0x80010000

	messageCall, messageReply, messageException = 1, 2, 3

	typeStop, typeI32, typeI64, typeString    = 0, 8, 10, 11
	typeStruct, typeMap, typeSet, typeList    = 12, 13, 14, 15
	exceptionUnknownMethod, exceptionInternal = 1, 6
)

// fixedSizes has the lengths of values in bytes by type: bool, byte, double, i16, i32, i64.
var fixedSizes = map[byte]uint32{2: 1, 3: 1, 4: 8, 6: 2, typeI32: 4, typeI64: 8}

// A method is a call for IDs.
type method struct {
	name     string
	hasCount bool
	result   byte // the type of the result
	element  byte // if it is a list
}

// methods are in order of preference. Old servers lack the first ones.
var methods = []method{{"get_id_runs", true, typeList, typeStruct}, {"get_ids", true, typeList, typeI64},
	{"get_id", false, typeI64, 0}}

// A refusal is the exception with which a server answered a call.
type refusal struct {
	kind            error // ErrUnreachable if no other kind fits
	message         string
	retryAfter      time.Duration
	isUnknownMethod bool
	isInvalidCount  bool
}

func (r *refusal) Error() string { return r.message }

// appendCall appends the frame of a call.
func appendCall(out []byte, m *method, sequence uint32, agent string, count int) []byte {
	start := len(out)
	out = append32(append32(out, 0), version|messageCall)
	out = append32(appendText(out, m.name), sequence)
	out = appendText(append(out, typeString, 0, 1), agent)
	if m.hasCount {
		out = append32(append(out, typeI32, 0, 2), uint32(count))
	}
	out = append(out, typeStop)
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-4))
	return out
}

func append32(out []byte, number uint32) []byte { return binary.BigEndian.AppendUint32(out, number) }

func appendText(out []byte, text string) []byte {
	return append(append32(out, uint32(len(text))), text...)
}

// readReply reads a message, which must be the reply to that call. If it is, and the server refused,
// the error is a *refusal.
func readReply(message []byte, m *method, sequence uint32) (runs []run, err error) {
	r := &reader{data: message}
	header, name, number := r.u32(), r.text(), r.u32()
	kind := header &^ version
	switch {
	case header&0xffff0000 != version || kind != messageReply && kind != messageException:
		r.fail("header %#08x", header)
	case name != m.name || number != sequence:
		r.fail("the reply to %.40q with sequence ID %d, not to %s with %d", name, number, m.name, sequence)
	}
	var refused *refusal
	if kind == messageException {
		refused = r.exception()
	} else {
		hasResult := false
		r.fields(0, func(id uint16, fieldType byte) bool {
			switch {
			case id == 0 && fieldType == m.result && !hasResult:
				hasResult, runs = true, r.result(m)
			case id > 0 && id < uint16(len(typedKinds)) && fieldType == typeStruct && m.hasCount:
				refused = r.exception()
				refused.kind, refused.isInvalidCount = typedKinds[id], id == invalidCount
			default:
				return false
			}
			return true
		})
		if !hasResult && refused == nil {
			r.fail("no result")
		}
	}
	if len(r.data) > 0 {
		r.fail("%d bytes after the message", len(r.data))
	}
	if r.err == nil && refused != nil {
		return nil, refused
	}
	return runs, r.err
}

// typedKinds has the kinds of the typed exceptions by their field in a reply.
var typedKinds = []error{nil, ErrClock, ErrInvalidAgent, ErrUnavailable, ErrUnreachable}

const invalidCount = 4

// legacyKinds is for get_id: it has no typed exceptions, and the message begins with a name.
var legacyKinds = map[string]error{"InvalidSystemClock": ErrClock, "InvalidUserAgentError": ErrInvalidAgent,
	"WorkerIdUnavailable": ErrUnavailable}

// exception reads a TApplicationException, or a typed one.
func (r *reader) exception() *refusal {
	refused, number := &refusal{kind: ErrUnreachable}, uint32(0)
	r.fields(1, func(id uint16, fieldType byte) bool {
		switch {
		case id == 1 && fieldType == typeString:
			refused.message = r.text()
		case id == 2 && fieldType == typeI32:
			number = r.u32()
		case id == 2 && fieldType == typeI64:
			if ms := r.i64(); ms > 0 && ms < math.MaxInt64/int64(time.Millisecond) {
				refused.retryAfter = time.Duration(ms) * time.Millisecond
			}
		default:
			return false
		}
		return true
	})
	refused.isUnknownMethod = number == exceptionUnknownMethod
	name, text, _ := strings.Cut(refused.message, ": ")
	if kind := legacyKinds[name]; kind != nil && number == exceptionInternal {
		refused.kind, refused.message = kind, text
	}
	return refused
}

// result reads an i64, a list of them or a list of IdRun.
func (r *reader) result(m *method) (runs []run) {
	if m.result == typeI64 {
		return r.extend(nil, r.i64(), 1)
	}
	element, size := r.u8(), r.u32()
	if element != m.element && size > 0 {
		r.fail("a list of type %d", element)
	}
	for ; size > 0 && r.err == nil; size-- {
		if m.element == typeI64 {
			runs = r.extend(runs, r.i64(), 1)
			continue
		}
		first, count := int64(0), 0
		r.fields(1, func(id uint16, fieldType byte) bool {
			switch {
			case id == 1 && fieldType == typeI64:
				first = r.i64()
			case id == 2 && fieldType == typeI32:
				count = int(int32(r.u32()))
			default:
				return false
			}
			return true
		})
		runs = r.extend(runs, first, count)
	}
	return runs
}

// extend appends a run of valid IDs that are greater than those before.
func (r *reader) extend(runs []run, first int64, count int) []run {
	if first <= 0 || count < 1 || count > maxBatch || first > math.MaxInt64-int64(count)+1 {
		r.fail("%d IDs from %d on", count, first)
		return runs
	}
	if len(runs) > 0 {
		last := &runs[len(runs)-1]
		if greatest := last.first + int64(last.count) - 1; first <= greatest {
			r.fail("ID %d after %d", first, greatest)
		} else if first == greatest+1 {
			last.count += count
			return runs
		}
	}
	return append(runs, run{first, count})
}

// A reader reads values. After an error, there are no more bytes, and values are 0.
type reader struct {
	data []byte
	err  error
}

var errShort = errors.New("the message ends too soon")

func (r *reader) fail(format string, values ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, values...)
	}
	r.data = nil
}

// take returns nil if there are fewer bytes.
func (r *reader) take(length uint32) []byte {
	if uint64(len(r.data)) < uint64(length) {
		r.fail("%w", errShort)
		return nil
	}
	taken := r.data[:length]
	r.data = r.data[length:]
	return taken
}

func (r *reader) number(length uint32) (value uint64) {
	for _, one := range r.take(length) {
		value = value<<8 | uint64(one)
	}
	return value
}

func (r *reader) u8() byte     { return byte(r.number(1)) }
func (r *reader) u32() uint32  { return uint32(r.number(4)) }
func (r *reader) i64() int64   { return int64(r.number(8)) }
func (r *reader) text() string { return string(r.take(r.u32())) }

// fields calls read for each field of a struct, and skips fields for which it returns false.
func (r *reader) fields(depth int, read func(id uint16, fieldType byte) bool) {
	for fieldType := r.u8(); fieldType != typeStop; fieldType = r.u8() {
		if !read(uint16(r.number(2)), fieldType) {
			r.skip(fieldType, depth+1)
		}
	}
}

func (r *reader) skip(valueType byte, depth int) {
	size, isFixed := fixedSizes[valueType]
	switch {
	case depth > maxDepth:
		r.fail("values are nested too deeply")
	case isFixed:
		r.take(size)
	case valueType == typeString:
		r.take(r.u32())
	case valueType == typeStruct:
		r.fields(depth, func(uint16, byte) bool { return false })
	case valueType == typeMap:
		r.skipElements(depth+1, r.u8(), r.u8())
	case valueType == typeSet || valueType == typeList:
		r.skipElements(depth+1, r.u8())
	default:
		r.fail("a value of type %d", valueType)
	}
}

// skipElements ends soon, since each element has one byte or more.
func (r *reader) skipElements(depth int, types ...byte) {
	for size := r.u32(); size > 0 && r.err == nil; size-- {
		for _, one := range types {
			r.skip(one, depth)
		}
	}
}
