// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"math"
	"time"
)

const growth = 4 // at most, from one target to the next

// A run is a number of IDs that are consecutive numbers.
type run struct {
	first   int64
	count   int
	expires time.Time // in a buffer
}

// A buffer holds the prefetched IDs. It is guarded by the client's lock; callers pass the time.
type buffer struct {
	prefetch, maxAge time.Duration

	runs       []run // oldest first
	left       int   // IDs in all runs
	target     int   // IDs that the buffer should hold
	measuredAt time.Time
	taken      int // IDs since then, from the buffer or by NextID
	discarded  uint64
}

// pop returns the oldest ID that has not expired.
func (b *buffer) pop(now time.Time) (id int64, ok bool) {
	for ; len(b.runs) > 0; b.runs = b.runs[1:] {
		if first := &b.runs[0]; !now.Before(first.expires) {
			b.left -= first.count
			b.discarded += uint64(first.count)
		} else if first.count > 0 {
			b.left--
			b.taken++
			return first.next(), true
		}
	}
	return 0, false
}

func (r *run) next() int64 {
	r.first++
	r.count--
	return r.first - 1
}

// isLow returns whether it is time for a refill.
func (b *buffer) isLow() bool { return b.left*2 < b.target }

func (b *buffer) put(runs []run, expires time.Time) {
	for _, one := range runs {
		b.runs = append(b.runs, run{one.first, one.count, expires})
	}
	b.left += sum(runs)
}

// wanted returns how many IDs to request now, 1 or more: the buffer should last for the prefetch time
// and two round trips, at the rate since the last call. If that is less than one ID in maxAge, the
// buffer stays empty.
func (b *buffer) wanted(roundTrip time.Duration, now time.Time) int {
	rate := 0.0 // IDs a second
	if !b.measuredAt.IsZero() {
		rate = float64(b.taken) / math.Max(now.Sub(b.measuredAt).Seconds(), 1e-6)
	}
	span, most := b.prefetch+2*min(roundTrip, b.maxAge/4), min(growth*max(b.target, 1), maxBatch)
	b.measuredAt, b.taken, b.target = now, 0, 0
	if rate*b.maxAge.Seconds() >= 1 {
		b.target = int(math.Min(math.Ceil(rate*span.Seconds()), float64(most)))
	}
	return max(b.target-b.left, 1)
}

func sum(runs []run) (total int) {
	for _, one := range runs {
		total += one.count
	}
	return total
}

// min and max are built in from Go 1.21 on; Debian 12 has 1.19.
func min[T int | time.Duration](a, b T) T {
	if a < b {
		return a
	}
	return b
}

func max[T int | time.Duration](a, b T) T { return -min(-a, -b) }
