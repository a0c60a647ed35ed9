// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"testing"
	"time"
)

// A scripted clock, and a hand that goes by it.
type scripted struct {
	hand
	at time.Time
	id int64
}

func newScripted() *scripted {
	s := &scripted{at: time.Unix(1000, 0), id: 1}
	s.hand = hand{prefetch: 50 * time.Millisecond, maxAge: time.Second,
		now: func() time.Time { return s.at }}
	return s
}

func (s *scripted) fill(count int) {
	s.put([]run{{s.id, count}}, 0, s.at)
	s.id += int64(count)
}

func (s *scripted) mustTake(t *testing.T, want int64) {
	t.Helper()
	if id, ok, _ := s.take(); !ok || id != want {
		t.Fatalf("took %d (%v), not %d", id, ok, want)
	}
}

func TestHandGivesTheOldestFirst(t *testing.T) {
	s := newScripted()
	s.put([]run{{10, 2}, {20, 1}}, 1, s.at)
	s.put([]run{{30, 1}}, 0, s.at)
	for _, want := range []int64{11, 20, 30} {
		s.mustTake(t, want)
	}
	if id, ok, _ := s.take(); ok {
		t.Fatalf("%d was in hand", id)
	}
}

func TestHandThrowsAwayWhatIsTooOld(t *testing.T) {
	s := newScripted()
	s.fill(3)
	s.at = s.at.Add(999 * time.Millisecond)
	s.mustTake(t, 1)
	s.fill(1)
	s.at = s.at.Add(time.Millisecond)
	s.mustTake(t, 4)
	if s.tooOld != 2 || s.left != 0 {
		t.Fatalf("%d too old, %d left", s.tooOld, s.left)
	}
}

func TestHandGrowsWithTheRate(t *testing.T) {
	s := newScripted()
	for i, want := range []int{1, 4, 16, 64, 100, 100} { // 1,000 a second, of which 100 ms
		if i == 1 {
			s.prefetch = 100 * time.Millisecond
		}
		wanted := s.wanted(0)
		if wanted != want {
			t.Fatalf("batch %d: %d are wanted, not %d", i, wanted, want)
		}
		s.fill(wanted)
		for ; wanted > 0; wanted-- {
			s.at = s.at.Add(time.Millisecond)
			s.take()
		}
	}
	s.at = s.at.Add(10 * time.Second)
	if wanted := s.wanted(0); wanted != 1 || s.target > 10 {
		t.Fatalf("after a pause %d are wanted, %d aimed at", wanted, s.target)
	}
}

func TestHandIsNeverMoreThanABatch(t *testing.T) {
	s := newScripted()
	for i := 0; i < 20; i++ {
		wanted := s.wanted(time.Second)
		if wanted > maxBatch {
			t.Fatalf("%d are wanted", wanted)
		}
		s.fill(wanted)
		for ; wanted > 0; wanted-- {
			s.take()
		}
		s.at = s.at.Add(time.Microsecond)
	}
	if s.target != maxBatch {
		t.Fatalf("%d are aimed at", s.target)
	}
}

func TestHandFetchesOneForWhoTakesSeldom(t *testing.T) {
	s := newScripted()
	for i := 0; i < 5; i++ {
		if wanted := s.wanted(0); wanted != 1 {
			t.Fatalf("%d are wanted", wanted)
		}
		s.fill(1)
		if _, _, isLow := s.take(); isLow {
			t.Fatal("more are to be fetched")
		}
		s.at = s.at.Add(1100 * time.Millisecond)
	}
}

func TestHandSaysOnceThatThereAreFew(t *testing.T) {
	s := newScripted()
	s.target = 8
	s.fill(8)
	said := 0
	for i := 1; i <= 8; i++ {
		_, _, isLow := s.take()
		if isLow {
			said++
		}
		if isLow != (i == 5) {
			t.Fatalf("take %d: %v", i, isLow)
		}
	}
	s.fill(4)
	if _, _, isLow := s.take(); !isLow || said != 1 {
		t.Fatalf("said %d times, then %v", said, isLow)
	}
}

func TestHandStaysEmptyOnceClosed(t *testing.T) {
	s := newScripted()
	s.fill(3)
	s.close()
	s.fill(3)
	if id, ok, _ := s.take(); ok {
		t.Fatalf("%d was in hand", id)
	}
}
