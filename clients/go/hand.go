// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"math"
	"sync"
	"time"
)

const growth = 4 // at most, from one batch to the next

// A run is IDs that are consecutive numbers.
type run struct {
	first int64
	count int
}

type batch struct {
	runs    []run
	left    int
	expires time.Time
}

// A hand has the IDs that were fetched and not yet taken. Any goroutine takes; whoever puts has the
// turn.
type hand struct {
	prefetch, maxAge time.Duration
	now              func() time.Time

	lock     sync.Mutex
	batches  []batch // oldest first
	left     int     // in all of them
	target   int     // how many there should be; with fewer than half of it, more are fetched
	isRung   bool    // and that was said
	isClosed bool
	looked   time.Time // when the rate was measured last
	had      int       // were in hand then, or came since
	tooOld   int       // of these
}

// take gives the oldest that is not too old. isLow says, once until there are more, that there are
// few.
func (h *hand) take() (id int64, ok, isLow bool) {
	now := h.now()
	h.lock.Lock()
	defer h.lock.Unlock()
	id, ok = h.pop(now)
	return id, ok, ok && h.ring()
}

// takeMany appends to ids until there are count, or none in hand.
func (h *hand) takeMany(ids []int64, count int) (more []int64, isLow bool) {
	now := h.now()
	h.lock.Lock()
	defer h.lock.Unlock()
	for len(ids) < count {
		id, ok := h.pop(now)
		if !ok {
			break
		}
		ids = append(ids, id)
	}
	return ids, h.ring()
}

func (h *hand) pop(now time.Time) (id int64, ok bool) {
	for len(h.batches) > 0 {
		first := &h.batches[0]
		if !now.Before(first.expires) {
			h.tooOld += first.left
			h.left -= first.left
			h.batches = h.batches[1:]
			continue
		}
		next := &first.runs[0]
		id = next.first
		next.first++
		if next.count--; next.count == 0 {
			first.runs = first.runs[1:]
		}
		h.left--
		if first.left--; first.left == 0 {
			h.batches = h.batches[1:]
		}
		return id, true
	}
	return 0, false
}

func (h *hand) ring() bool {
	if h.isRung || !h.isLowNow() {
		return false
	}
	h.isRung = true
	return true
}

func (h *hand) isLowNow() bool {
	return h.left*2 < h.target
}

func (h *hand) isLow() bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.isLowNow()
}

// put adds what was fetched; given of them were taken at once. Their age counts from asked.
func (h *hand) put(runs []run, given int, asked time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.isClosed {
		return
	}
	h.isRung = false
	left := count(runs)
	h.had += left
	for ; given > 0; given-- {
		left--
		runs[0].first++
		if runs[0].count--; runs[0].count == 0 {
			runs = runs[1:]
		}
	}
	if left > 0 {
		h.batches = append(h.batches, batch{runs, left, asked.Add(h.maxAge)})
		h.left += left
	}
}

// close leaves nothing in hand, for good.
func (h *hand) close() {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.isClosed = true
	h.batches, h.left, h.target = nil, 0, 0
}

// wanted says how many are to be fetched now, 1 or more: so many that all in hand last for the time
// of prefetch and two round trips. Who takes less often than IDs become too old gets just one.
func (h *hand) wanted(roundTrip time.Duration) int {
	now := h.now()
	h.lock.Lock()
	defer h.lock.Unlock()
	rate := 0.0 // a second
	if !h.looked.IsZero() {
		rate = float64(h.had-h.tooOld-h.left) / math.Max(now.Sub(h.looked).Seconds(), 1e-6)
	}
	h.looked, h.had, h.tooOld = now, h.left, 0
	if rate*h.maxAge.Seconds() < 1 {
		h.target = 0
	} else {
		lasting := h.prefetch + 2*shorter(roundTrip, h.maxAge/4)
		most := math.Min(float64(growth*larger(h.target, 1)), maxBatch)
		h.target = int(math.Min(math.Ceil(rate*lasting.Seconds()), most))
	}
	return larger(h.target-h.left, 1)
}

func count(runs []run) int {
	sum := 0
	for _, one := range runs {
		sum += one.count
	}
	return sum
}

func larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func shorter(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}
