// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"encoding/binary"
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

	headerCall, headerReply, headerException  = 0x80010001, 0x80010002, 0x80010003
	typeStop, typeI32, typeI64, typeString    = 0, 8, 10, 11
	typeStruct, typeMap, typeSet, typeList    = 12, 13, 14, 15
	exceptionUnknownMethod, exceptionInternal = 1, 6
)

// A method is a call for IDs.
type method struct {
	name    string
	isBatch bool // it has a count, and returns a list
	element byte // the type of the list's elements, or of the result
}

// methods are in order of preference. Old servers lack the first ones.
var methods = []method{{"get_id_runs", true, typeStruct}, {"get_ids", true, typeI64}, {"get_id", false, typeI64}}

// typedKinds are the kinds of the typed exceptions by their field in a reply. The last one is InvalidCount.
var typedKinds = []error{nil, ErrClock, ErrInvalidAgent, ErrUnavailable, ErrUnreachable}

// legacyKinds is for get_id: it has no typed exceptions, and the message begins with a name.
var legacyKinds = map[string]error{"InvalidSystemClock": ErrClock, "InvalidUserAgentError": ErrInvalidAgent,
	"WorkerIdUnavailable": ErrUnavailable}

// appendCall appends the frame of a call.
func appendCall(out []byte, m *method, sequence uint32, agent string, count int) []byte {
	start := len(out)
	out = append32(append32(out, 0), headerCall)
	out = append32(appendText(out, m.name), sequence)
	out = appendText(append(out, typeString, 0, 1), agent)
	if m.isBatch {
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

// readReply reads a message, which must be the reply to that call.
func readReply(message []byte, m *method, sequence uint32) (runs []run, failed *failure) {
	r := &reader{data: message}
	header, name, number := r.number(4), r.text(), r.number(4)
	if name != m.name || number != uint64(sequence) {
		r.fail("the reply to %.40q with sequence ID %d, not to %s with %d", name, number, m.name, sequence)
	}
	switch header {
	case headerReply:
		runs, failed = r.result(m)
	case headerException:
		text, code := r.exception(typeI32)
		name, rest, _ := strings.Cut(text, ": ")
		if kind := legacyKinds[name]; kind != nil && code == exceptionInternal {
			failed = newRefusal(kind, rest, answered)
		} else if code == exceptionUnknownMethod {
			failed = newRefusal(ErrUnreachable, text, unknownMethod)
		} else {
			failed = newRefusal(ErrUnreachable, text, answered)
		}
	default:
		r.fail("header %#08x", header)
	}
	if len(r.data) > 0 {
		r.fail("%d bytes after the message", len(r.data))
	}
	if r.err != nil {
		return nil, notReply(r.err)
	}
	return runs, failed
}

// result reads the fields of a reply: 0 is the result, the others are exceptions.
func (r *reader) result(m *method) (runs []run, failed *failure) {
	resultType, hasResult := m.element, false
	if m.isBatch {
		resultType = typeList
	}
	r.fields(0, func(id int, fieldType byte) bool {
		switch {
		case id == 0 && fieldType == resultType && !hasResult:
			hasResult, runs = true, r.ids(m)
		case id > 0 && id < len(typedKinds) && fieldType == typeStruct && m.isBatch:
			text, ms := r.exception(typeI64)
			if failed = newRefusal(typedKinds[id], text, answered); id == len(typedKinds)-1 {
				failed.state = invalidCount
			}
			if ms > 0 && ms < math.MaxInt64/int64(time.Millisecond) {
				failed.retryAfter = time.Duration(ms) * time.Millisecond
			}
		default:
			return false
		}
		return true
	})
	if !hasResult && failed == nil {
		r.fail("no result")
	}
	return runs, failed
}

// ids reads an i64, a list of them or a list of IdRun.
func (r *reader) ids(m *method) (runs []run) {
	size := uint64(1)
	if m.isBatch {
		if element := byte(r.number(1)); element != m.element {
			r.fail("a list of type %d", element)
		}
		size = r.number(4)
	}
	for ; size > 0 && r.err == nil; size-- {
		first, count := int64(0), int64(1)
		if m.element == typeI64 {
			first = int64(r.number(8))
		} else {
			r.fields(1, func(id int, fieldType byte) bool {
				return r.readI(&first, id == 1 && fieldType == typeI64, 8) ||
					r.readI(&count, id == 2 && fieldType == typeI32, 4)
			})
		}
		runs = r.extend(runs, first, count)
	}
	return runs
}

// extend appends a run of valid IDs that are greater than those before.
func (r *reader) extend(runs []run, first, count int64) []run {
	if first <= 0 || count < 1 || count > maxBatch || first > math.MaxInt64-count+1 {
		r.fail("%d IDs from %d on", count, first)
		return runs
	}
	if len(runs) > 0 {
		last := &runs[len(runs)-1]
		if greatest := last.first + int64(last.count) - 1; first <= greatest {
			r.fail("ID %d after %d", first, greatest)
		} else if first == greatest+1 {
			last.count += int(count)
			return runs
		}
	}
	return append(runs, run{first: first, count: int(count)})
}

// A reader reads values. After an error, there are no more bytes, and values are 0.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail(format string, values ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, values...)
	}
	r.data = nil
}

// take returns nil if there are fewer bytes.
func (r *reader) take(length uint64) []byte {
	if uint64(len(r.data)) < length {
		r.fail("the message ends too soon")
		return nil
	}
	taken := r.data[:length]
	r.data = r.data[length:]
	return taken
}

func (r *reader) number(length uint64) (value uint64) {
	for _, one := range r.take(length) {
		value = value<<8 | uint64(one)
	}
	return value
}

func (r *reader) text() string { return string(r.take(r.number(4))) }

// readI reads a signed integer if the condition is true, and returns the condition.
func (r *reader) readI(into *int64, condition bool, length uint64) bool {
	if condition {
		shift := 64 - 8*length
		*into = int64(r.number(length)<<shift) >> shift
	}
	return condition
}

// exception reads a struct that contains a string and a number.
func (r *reader) exception(numberType byte) (text string, number int64) {
	r.fields(1, func(id int, fieldType byte) bool {
		if id == 1 && fieldType == typeString {
			text = r.text()
			return true
		}
		return r.readI(&number, id == 2 && fieldType == numberType, fixedSizes[numberType])
	})
	return text, number
}

// fields calls read for each field of a struct, and skips fields for which it returns false.
func (r *reader) fields(depth int, read func(id int, fieldType byte) bool) {
	for fieldType := byte(r.number(1)); fieldType != typeStop; fieldType = byte(r.number(1)) {
		if !read(int(r.number(2)), fieldType) {
			r.skip(fieldType, depth+1)
		}
	}
}

// fixedSizes are the sizes of types in bytes: bool, byte, double, i16, i32, i64.
var fixedSizes = map[byte]uint64{2: 1, 3: 1, 4: 8, 6: 2, typeI32: 4, typeI64: 8}

func (r *reader) skip(valueType byte, depth int) {
	size, isFixed := fixedSizes[valueType]
	switch {
	case depth > maxDepth:
		r.fail("values are nested too deeply")
	case isFixed:
		r.take(size)
	case valueType == typeString:
		r.take(r.number(4))
	case valueType == typeStruct:
		r.fields(depth, func(int, byte) bool { return false })
	case valueType == typeMap || valueType == typeSet || valueType == typeList:
		types := uint64(1)
		if valueType == typeMap {
			types = 2
		}
		elements := r.take(types)
		for count := r.number(4); count > 0 && r.err == nil; count-- { // each has one byte or more
			for _, one := range elements {
				r.skip(one, depth+1)
			}
		}
	default:
		r.fail("a value of type %d", valueType)
	}
}
