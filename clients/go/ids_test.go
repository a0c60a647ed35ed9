// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/snowflake"
)

type vector struct {
	Layout string `json:"layout"`
	Bits   struct {
		Time, Datacenter, Worker, Sequence uint
	} `json:"bits"`
	UnitMs     int64  `json:"time_unit_ms"`
	EpochMs    int64  `json:"epoch_ms"`
	ID         string `json:"id"`
	Timestamp  int64  `json:"timestamp_ms"`
	Datacenter int64  `json:"datacenter_id"`
	Worker     int64  `json:"worker_id"`
	Sequence   int64  `json:"sequence"`
}

func (v vector) layout() snowflake.Layout {
	return snowflake.Layout{EpochMs: v.EpochMs, TimeBits: v.Bits.Time,
		DatacenterBits: v.Bits.Datacenter, WorkerBits: v.Bits.Worker,
		SequenceBits: v.Bits.Sequence, UnitMs: v.UnitMs}
}

func read(t *testing.T, name string, into interface{}) {
	t.Helper()
	text, err := os.ReadFile("../../tests/vectors/" + name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDecodeOfVectors(t *testing.T) {
	var file struct {
		Twitter struct {
			vector
			IDs []vector `json:"ids"`
		} `json:"twitter"`
		Others []vector `json:"other_layouts"`
	}
	read(t, "layouts.json", &file)
	if len(file.Twitter.IDs) < 7 || len(file.Others) < 4 {
		t.Fatalf("only %d and %d vectors", len(file.Twitter.IDs), len(file.Others))
	}
	twitter := snowflake.Twitter
	twitter.UnitMs = 1
	if file.Twitter.layout() != twitter {
		t.Fatalf("Twitter's layout is %v", twitter)
	}
	check := func(v vector, layout snowflake.Layout) {
		parts, err := layout.Decode(number(t, v.ID))
		want := snowflake.Parts{Time: time.UnixMilli(v.Timestamp).UTC(), Datacenter: v.Datacenter,
			Worker: v.Worker, Sequence: v.Sequence}
		if err != nil || parts != want {
			t.Errorf("%s is %v (%v), not %v", v.ID, parts, err, want)
		}
		low, high, err := layout.Range(parts.Time, parts.Time)
		if id := number(t, v.ID); err != nil || id < low || id > high {
			t.Errorf("%s is not in %d to %d (%v)", v.ID, low, high, err)
		}
	}
	for _, v := range file.Twitter.IDs {
		check(v, snowflake.Twitter)
	}
	for _, v := range file.Others {
		check(v, v.layout())
	}
}

func TestTextOfVectors(t *testing.T) {
	var file struct {
		IDs []struct {
			ID        string `json:"id"`
			Crockford string `json:"base32_crockford"`
			Base62    string `json:"base62"`
		} `json:"ids"`
		Reject struct {
			Crockford []string `json:"base32_crockford"`
			Base62    []string `json:"base62"`
		} `json:"reject"`
	}
	read(t, "text.json", &file)
	if len(file.IDs) < 9 || len(file.Reject.Crockford) < 6 || len(file.Reject.Base62) < 4 {
		t.Fatal("vectors are missing")
	}
	for _, v := range file.IDs {
		id := number(t, v.ID)
		if text := snowflake.Base62(id); text != v.Base62 {
			t.Errorf("%s in base62: %s, not %s", v.ID, text, v.Base62)
		}
		if text := snowflake.Crockford(id); text != v.Crockford {
			t.Errorf("%s of Crockford: %s, not %s", v.ID, text, v.Crockford)
		}
		mustBe(t, id)(snowflake.ParseBase62(v.Base62))
		mustBe(t, id)(snowflake.ParseCrockford(v.Crockford))
		mustBe(t, id)(snowflake.ParseCrockford(strings.ToLower(v.Crockford)))
	}
	for _, text := range append(file.Reject.Crockford, "000000000000é", "-1") {
		mustBeNone(t, text)(snowflake.ParseCrockford(text))
	}
	for _, text := range append(file.Reject.Base62, "0000000000é", "-1", "000000000001") {
		mustBeNone(t, text)(snowflake.ParseBase62(text))
	}
	mustBe(t, 33*32)(snowflake.ParseCrockford("iLo"))
}

func mustBe(t *testing.T, want int64) func(int64, error) {
	return func(id int64, err error) {
		t.Helper()
		if err != nil || id != want {
			t.Errorf("%d (%v), not %d", id, err, want)
		}
	}
}

func mustBeNone(t *testing.T, text string) func(int64, error) {
	return func(id int64, err error) {
		t.Helper()
		if !errors.Is(err, snowflake.ErrInvalidArgument) || id != 0 {
			t.Errorf("%q is %d (%v)", text, id, err)
		}
	}
}

func TestNoIDs(t *testing.T) {
	small := snowflake.Layout{TimeBits: 8, SequenceBits: 8}
	mustBeNone(t, "-1")(0, second(snowflake.Decode(-1)))
	mustBeNone(t, "65536")(0, second(small.Decode(65536)))
	if _, err := small.Decode(65535); err != nil {
		t.Error(err)
	}
	if text := snowflake.Base62(-1) + snowflake.Crockford(math.MinInt64); text != "" {
		t.Errorf("a negative number is %q", text)
	}
}

func second(_ snowflake.Parts, err error) error { return err }

func TestRange(t *testing.T) {
	epoch := time.UnixMilli(snowflake.Twitter.EpochMs)
	at := func(ms float64) time.Time { return epoch.Add(time.Duration(ms * 1e6)) }
	end := epoch.UnixMilli() + 1<<41 - 1
	seconds := snowflake.Layout{EpochMs: 0, TimeBits: 29, WorkerBits: 21, SequenceBits: 13,
		UnitMs: 1000}
	for _, one := range []struct {
		layout    snowflake.Layout
		from, to  time.Time
		low, high int64
	}{
		{snowflake.Twitter, epoch, epoch, 0, 1<<22 - 1},
		{snowflake.Twitter, at(1), at(2), 1 << 22, 3<<22 - 1},
		{snowflake.Twitter, at(1.9), at(2.9), 1 << 22, 3<<22 - 1},
		{snowflake.Twitter, at(-1e6), at(1), 0, 2<<22 - 1},
		{snowflake.Twitter, time.UnixMilli(end), time.UnixMilli(end + 9), 1<<63 - 1<<22, math.MaxInt64},
		// values that programs use for no beginning and no end
		{snowflake.Twitter, time.UnixMilli(math.MinInt64), at(1), 0, 2<<22 - 1},
		{snowflake.Twitter, time.Time{}, at(1), 0, 2<<22 - 1},
		{snowflake.Twitter, at(1), time.Unix(1<<63-62135596801, 999999999), 1 << 22, math.MaxInt64},
		{snowflake.Twitter, at(1), time.UnixMilli(math.MaxInt64), 1 << 22, math.MaxInt64},
		{seconds, time.Unix(5, 1), time.Unix(6, 999), 5 << 34, 7<<34 - 1},
	} {
		low, high, err := one.layout.Range(one.from, one.to)
		if err != nil || low != one.low || high != one.high {
			t.Errorf("%v to %v: %d to %d (%v), not %d to %d", one.from, one.to, low, high, err,
				one.low, one.high)
		}
	}
	for _, one := range [][2]time.Time{{at(2), at(1)}, {at(-2), at(-0.5)},
		{time.UnixMilli(end + 1), time.UnixMilli(end + 2)},
		{time.UnixMilli(end + 1), time.Unix(1<<62, 0)}} {
		if _, _, err := snowflake.Range(one[0], one[1]); !errors.Is(err, snowflake.ErrInvalidArgument) {
			t.Errorf("%v to %v: %v", one[0], one[1], err)
		}
	}
}
