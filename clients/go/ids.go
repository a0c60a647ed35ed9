// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"math"
	"strings"
	"time"
)

// Parts are an ID, taken apart.
type Parts struct {
	Time       time.Time // UTC; the beginning of the tick
	Datacenter int64
	Worker     int64
	Sequence   int64
}

// A Layout is how an ID divides, from high bits to low: time, datacenter, worker, sequence.
type Layout struct {
	EpochMs        int64 // since the Unix epoch: the time that is 0
	TimeBits       uint
	DatacenterBits uint
	WorkerBits     uint
	SequenceBits   uint
	UnitMs         int64 // of a tick; 0 stands for 1
}

// Twitter is the layout that servers have unless they are told another.
var Twitter = Layout{EpochMs: 1288834974657, TimeBits: 41, DatacenterBits: 5, WorkerBits: 5,
	SequenceBits: 12}

// Decode takes an ID of Twitter's layout apart.
func Decode(id int64) (Parts, error) {
	return Twitter.Decode(id)
}

// Range is the lowest and the highest ID of a span of time: see Layout.Range.
func Range(from, to time.Time) (lowest, highest int64, err error) {
	return Twitter.Range(from, to)
}

// Decode takes an ID apart; an ErrInvalidArgument if it is none of this layout.
func (l Layout) Decode(id int64) (Parts, error) {
	if id < 0 || id > l.highest() {
		return Parts{}, invalid("%d is no ID of this layout: 0 to %d", id, l.highest())
	}
	worker := id >> l.SequenceBits
	return Parts{
		Time:       time.UnixMilli(l.EpochMs + (id>>l.lowBits())*l.unitMs()).UTC(),
		Datacenter: worker >> l.WorkerBits & (1<<l.DatacenterBits - 1),
		Worker:     worker & (1<<l.WorkerBits - 1),
		Sequence:   id & (1<<l.SequenceBits - 1),
	}, nil
}

// Range is the lowest ID of from and the highest of to, for WHERE id BETWEEN. A tick that the span
// has only a part of counts as a whole. The span may begin before the layout or end after it; it is
// an ErrInvalidArgument if it ends before it begins, or is all outside the layout.
func (l Layout) Range(from, to time.Time) (lowest, highest int64, err error) {
	if to.Before(from) {
		return 0, 0, invalid("the span ends at %v, before it begins, at %v", to, from)
	}
	first, last, end := l.tick(from), l.tick(to), int64(1)<<l.TimeBits-1
	if last < 0 || first > end {
		return 0, 0, invalid("%v to %v is outside the layout", from, to)
	}
	if first < 0 {
		first = 0
	}
	if last > end {
		last = end
	}
	return first << l.lowBits(), last<<l.lowBits() | (1<<l.lowBits() - 1), nil
}

// tick is negative before the epoch. A time.Time can be later than milliseconds in 64 bits can
// express; later times count as after every tick.
func (l Layout) tick(at time.Time) int64 {
	if at.Before(time.UnixMilli(l.EpochMs)) {
		return -1
	}
	if at.After(time.UnixMilli(math.MaxInt64 / 4)) {
		return math.MaxInt64
	}
	return (at.UnixMilli() - l.EpochMs) / l.unitMs()
}

func (l Layout) lowBits() uint {
	return l.DatacenterBits + l.WorkerBits + l.SequenceBits
}

func (l Layout) highest() int64 {
	return int64(uint64(1)<<(l.TimeBits+l.lowBits()) - 1)
}

func (l Layout) unitMs() int64 {
	if l.UnitMs == 0 {
		return 1
	}
	return l.UnitMs
}

const (
	letters         = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62Digits    = "0123456789" + letters + "abcdefghijklmnopqrstuvwxyz"
	crockfordDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// A form writes IDs as text that sorts as they do.
type form struct {
	name   string
	digits string
	width  int
	plain  *strings.Replacer // of what else is read
}

var (
	base62    = form{"base62", base62Digits, 11, strings.NewReplacer()}
	crockford = form{"Crockford's base 32", crockfordDigits, 13,
		strings.NewReplacer("I", "1", "L", "1", "O", "0")}
)

// Base62 is 11 digits: figures, capital letters, small letters. It is empty for a negative number,
// which is no ID.
func Base62(id int64) string {
	return base62.write(id)
}

// ParseBase62 reads the ID; zeros in front may be left out. An ErrInvalidArgument if it is none.
func ParseBase62(text string) (int64, error) {
	return base62.read(text, text)
}

// Crockford is 13 digits of Crockford's base 32. It is empty for a negative number, which is no ID.
func Crockford(id int64) string {
	return crockford.write(id)
}

// ParseCrockford reads the ID, in either case; I and L are 1, O is 0; zeros in front may be left
// out. An ErrInvalidArgument if it is none.
func ParseCrockford(text string) (int64, error) {
	return crockford.read(text, strings.Map(upper, text))
}

func upper(letter rune) rune {
	if letter >= 'a' && letter <= 'z' {
		return letter - 'a' + 'A'
	}
	return letter
}

func (f form) write(id int64) string {
	if id < 0 {
		return ""
	}
	text := make([]byte, f.width)
	for i := f.width - 1; i >= 0; i-- {
		text[i] = f.digits[id%int64(len(f.digits))]
		id /= int64(len(f.digits))
	}
	return string(text)
}

func (f form) read(given, text string) (int64, error) {
	base, id := int64(len(f.digits)), int64(0)
	isID := len(text) >= 1 && len(text) <= f.width
	for _, letter := range f.plain.Replace(text) {
		digit := int64(strings.IndexRune(f.digits, letter))
		if isID = isID && digit >= 0 && id <= (math.MaxInt64-digit)/base; !isID {
			break
		}
		id = id*base + digit
	}
	if !isID {
		return 0, invalid("%.40q is no ID in %s: 1 to %d of its digits, %s at most",
			given, f.name, f.width, f.write(math.MaxInt64))
	}
	return id, nil
}
