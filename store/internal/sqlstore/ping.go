package sqlstore

import (
	"context"
	"time"
)

// probeEvery is the minimum interval between two probes that succeed.
const probeEvery = time.Second

var (
	databaseID = both(`SELECT id FROM identity`)
	anything   = both(`SELECT 1`)

	// probes are writes. SQLite's takes several pages, which have to be found first. What is deleted in a transaction of its own takes no
	// room, and the next probe has to find some.
	probes = []*Query{
		{SQLite: `INSERT INTO write_probe (data) VALUES (zeroblob(16384))`, Postgres: `UPDATE write_probe SET written_at = now()`},
		{SQLite: `DELETE FROM write_probe`},
	}
)

// ID implements [store.Identified].
func (s *Store) ID(ctx context.Context) (string, error) {
	return call(ctx, s, "id", func(ctx context.Context) (string, error) {
		return one(ctx, s, s.db.Reader, databaseID, scanned[string])
	}, "reading the id of the database")
}

// Ping implements [store.Store]. It checks that the database responds, has room and accepts writes.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "ping", func(ctx context.Context) error {
		if _, err := one(ctx, s, s.db.Reader, anything, scanned[int]); err != nil {
			return err
		}
		now := time.Now()
		if last := s.probed.Load(); last != nil && now.Sub(*last) < probeEvery {
			return nil
		}
		for _, probe := range probes {
			if _, err := s.db.Writer.Exec(ctx, probe); err != nil {
				return err
			}
		}
		s.probed.Store(&now)
		return nil
	}, "ping")
}
