package transcript

import (
	"context"
	"errors"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// ErrUnreadable means that a record's payload does not have the form of its type. A retry cannot
// help.
var ErrUnreadable = errors.New("is not readable")

// Reader is the part of a [store.Store] that reads records.
type Reader interface {
	Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error)
	RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error)
}

// pageRecords and pageBytes bound what [EachRecord] has in memory.
const (
	pageRecords = 200
	pageBytes   = 2 << 20
)

// EachRecord calls do with each record of a thread, in order, until it returns an error. Records that are stored meanwhile are among them.
func EachRecord(ctx context.Context, s Reader, key store.Key, do func(event.Record) error) error {
	for after := int64(0); ; {
		page, err := s.Records(ctx, key, store.Query{After: after, Limit: pageRecords, MaxBytes: pageBytes})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			if err := do(r); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Seq
	}
}

// AllRecords returns all records of a thread that have one of the types, oldest first.
func AllRecords(ctx context.Context, s Reader, key store.Key, types ...string) (all []event.Record, err error) {
	q := store.Query{Types: types}
	for {
		page, err := s.Records(ctx, key, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if q.Complete(page) {
			return all, nil
		}
		q.After = page[len(page)-1].Seq
	}
}
