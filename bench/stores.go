package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
)

// The names of stores in reports.
const (
	onSQLite   = "SQLite on disk"
	inMemory   = "SQLite in memory"
	onPostgres = "PostgreSQL"
)

// openSQLite opens the store in a folder, or in memory.
func (o *Options) openSQLite(ctx context.Context, dir string) (store.Store, error) {
	if o.Memory {
		return sqlite.Open(ctx, sqlite.Config{})
	}
	return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "threadmill.db")})
}

// openPostgres opens a store in a schema of its own, which drop deletes.
func openPostgres(ctx context.Context, url string) (s store.Store, drop func() error, err error) {
	schema := newID(fmt.Sprintf("bench_%d_", time.Now().UnixMilli()))
	s, err = postgres.Open(ctx, postgres.Config{URL: url, Schema: schema})
	return s, func() error { return dropSchema(context.WithoutCancel(ctx), url, schema) }, err
}

func dropSchema(ctx context.Context, url, schema string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return errors.Join(err, conn.Close(ctx))
}

// eachStore calls f with an empty store of each driver that is there.
func (m *meter) eachStore(ctx context.Context, f func(name string, s store.Store) error) error {
	if err := m.withSQLite(ctx, f); err != nil {
		return err
	}
	url, err := m.postgresURL()
	if err != nil || url == "" {
		return err
	}
	s, drop, err := openPostgres(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(f(onPostgres, s), s.Close(), drop())
}

func (m *meter) withSQLite(ctx context.Context, f func(name string, s store.Store) error) (err error) {
	dir, err := os.MkdirTemp("", "threadmill-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := m.openSQLite(ctx, dir)
	if err != nil {
		return err
	}
	name := onSQLite
	if m.Memory {
		name = inMemory
	}
	return errors.Join(f(name, s), s.Close())
}

// postgresURL returns the URL of the options, or that of the server that tests have; "" = none.
func (m *meter) postgresURL() (string, error) {
	if m.DatabaseURL != "" {
		return m.DatabaseURL, nil
	}
	url, err := testenv.FindPostgres()
	if url == "" && err == nil {
		m.say("PostgreSQL is not measured: give -database-url, or install it")
	}
	return url, err
}
