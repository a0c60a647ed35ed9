// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"math"
	"strings"
	"time"
)

// Parts are the fields of an ID.
type Parts struct {
	Time       time.Time // UTC; the beginning of the tick
	Datacenter int64
	Worker     int64
	Sequence   int64
}

// A Layout describes how an ID is divided, from the highest bits to the lowest: time, datacenter,
// worker, sequence.
type Layout struct {
	EpochMs        int64 // the time of tick 0, since the Unix epoch
	TimeBits       uint
	DatacenterBits uint
	WorkerBits     uint
	SequenceBits   uint
	UnitMs         int64 // length of a tick; 0: 1
}

// Twitter is the servers' default layout.
var Twitter = Layout{EpochMs: 1288834974657, TimeBits: 41, DatacenterBits: 5, WorkerBits: 5,
	SequenceBits: 12}

// Decode returns the fields of an ID in Twitter's layout.
func Decode(id int64) (Parts, error) { return Twitter.Decode(id) }

// Range is Layout.Range for Twitter's layout.
func Range(from, to time.Time) (lowest, highest int64, err error) { return Twitter.Range(from, to) }

// Decode returns the fields of an ID, or ErrInvalidArgument if the layout has no such ID.
func (l Layout) Decode(id int64) (Parts, error) {
	if highest := int64(uint64(1)<<(l.TimeBits+l.lowBits()) - 1); id < 0 || id > highest {
		return Parts{}, invalid("%d is not an ID of this layout: 0 to %d", id, highest)
	}
	worker := id >> l.SequenceBits
	return Parts{
		Time:       time.UnixMilli(l.EpochMs + (id>>l.lowBits())*l.unitMs()).UTC(),
		Datacenter: worker >> l.WorkerBits & (1<<l.DatacenterBits - 1),
		Worker:     worker & (1<<l.WorkerBits - 1),
		Sequence:   id & (1<<l.SequenceBits - 1),
	}, nil
}

// Range returns the lowest ID at from and the highest ID at to, for WHERE id BETWEEN. Ticks that
// are only partly in the span are included. If the span is completely outside the layout's range,
// or ends before it begins, the error is ErrInvalidArgument.
func (l Layout) Range(from, to time.Time) (lowest, highest int64, err error) {
	first, last, end := l.tick(from), l.tick(to), int64(1)<<l.TimeBits-1
	if to.Before(from) {
		return 0, 0, invalid("the span ends at %v, before it begins, at %v", to, from)
	}
	if last < 0 || first > end {
		return 0, 0, invalid("%v to %v is outside the layout's range", from, to)
	}
	if first < 0 {
		first = 0
	}
	if last > end {
		last = end
	}
	return first << l.lowBits(), last<<l.lowBits() | (1<<l.lowBits() - 1), nil
}

// tick returns -1 before the epoch. A time.Time can be later than milliseconds in 64 bits can express:
// such times are after every tick.
func (l Layout) tick(at time.Time) int64 {
	switch {
	case at.Before(time.UnixMilli(l.EpochMs)):
		return -1
	case at.After(time.UnixMilli(math.MaxInt64 / 4)):
		return math.MaxInt64
	}
	return (at.UnixMilli() - l.EpochMs) / l.unitMs()
}

func (l Layout) lowBits() uint { return l.DatacenterBits + l.WorkerBits + l.SequenceBits }

func (l Layout) unitMs() int64 {
	if l.UnitMs == 0 {
		return 1
	}
	return l.UnitMs
}

const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const crockfordDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var crockfordAliases = strings.NewReplacer("I", "1", "L", "1", "O", "0")

// Base62 returns 11 digits (0-9, A-Z, a-z), which sort as IDs do. A negative number gives an empty string.
func Base62(id int64) string { return format(id, base62Digits, 11) }

// ParseBase62 parses an ID, with or without leading zeros. If the text is not an ID, the error is
// ErrInvalidArgument.
func ParseBase62(text string) (int64, error) { return parse(text, text, base62Digits, 11) }

// Crockford returns 13 digits of Crockford's base 32. A negative number gives an empty string.
func Crockford(id int64) string { return format(id, crockfordDigits, 13) }

// ParseCrockford parses an ID in upper or lower case, with or without leading zeros; I and L count as
// 1, and O counts as 0. If the text is not an ID, the error is ErrInvalidArgument.
func ParseCrockford(text string) (int64, error) {
	return parse(text, crockfordAliases.Replace(strings.Map(toUpper, text)), crockfordDigits, 13)
}

func toUpper(letter rune) rune {
	if letter >= 'a' && letter <= 'z' {
		letter += 'A' - 'a'
	}
	return letter
}

func format(id int64, digits string, width int) string {
	if id < 0 {
		return ""
	}
	text := make([]byte, width)
	for i := width - 1; i >= 0; i-- {
		text[i] = digits[id%int64(len(digits))]
		id /= int64(len(digits))
	}
	return string(text)
}

func parse(given, text, digits string, width int) (id int64, err error) {
	base, isID := int64(len(digits)), len(text) >= 1 && len(text) <= width
	for _, letter := range text {
		digit := int64(strings.IndexRune(digits, letter))
		if isID = isID && digit >= 0 && id <= (math.MaxInt64-digit)/base; !isID {
			break
		}
		id = id*base + digit
	}
	if !isID {
		return 0, invalid("%.40q is not an ID in base %d: must be 1 to %d of its digits, at most %s", given, base,
			width, format(math.MaxInt64, digits, width))
	}
	return id, nil
}
