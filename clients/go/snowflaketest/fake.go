// SPDX-License-Identifier: Apache-2.0

// Package snowflaketest helps to test programs that take IDs. It provides a client that does not
// need a server, and a server that starts in milliseconds.
package snowflaketest

import (
	"context"
	"sync"

	"example.com/snowflake"
)

// FirstID has the time 2023-11-14 22:13:20 UTC, datacenter 1, worker 2 and sequence 0.
const FirstID int64 = 1724551110456385536

// A Fake is a snowflake.Generator that returns the same IDs in every run: FirstID, FirstID + 1 and
// so on.
type Fake struct {
	Step int64 // from one ID to the next; 0 stands for 1

	lock     sync.Mutex
	next     int64
	errors   []error
	isClosed bool
}

var _ snowflake.Generator = (*Fake)(nil)

// New creates a fake that begins with FirstID.
func New() *Fake {
	return NewAt(FirstID)
}

// NewAt creates a fake that begins with the given ID.
func NewAt(first int64) *Fake {
	return &Fake{next: first}
}

// FailNext makes the next call return err. Errors from several calls of FailNext are returned in
// order.
func (f *Fake) FailNext(err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.errors = append(f.errors, err)
}

// NextID is like snowflake.Client.NextID.
func (f *Fake) NextID(ctx context.Context) (int64, error) {
	ids, err := f.NextIDs(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// NextIDs is like snowflake.Client.NextIDs.
func (f *Fake) NextIDs(_ context.Context, count int) ([]int64, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	switch {
	case count < 1:
		return nil, &snowflake.Error{Kind: snowflake.ErrInvalidArgument,
			Detail: "count: not 1 or more"}
	case f.isClosed:
		return nil, &snowflake.Error{Kind: snowflake.ErrClosed}
	case len(f.errors) > 0:
		err := f.errors[0]
		f.errors = f.errors[1:]
		return nil, err
	}
	ids := make([]int64, count)
	for i := range ids {
		ids[i] = f.next
		f.next += f.step()
	}
	return ids, nil
}

func (f *Fake) step() int64 {
	if f.Step == 0 {
		return 1
	}
	return f.Step
}

// Close makes calls fail with ErrClosed.
func (f *Fake) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.isClosed = true
	return nil
}
