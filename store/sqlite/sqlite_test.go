package sqlite_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/store/storetest"
)

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "store.db")) })
}

func TestInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, "") })
}

func TestKnowledgeInFile(t *testing.T) {
	storetest.RunKnowledge(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "store.db")) })
}

func TestKnowledgeInMemory(t *testing.T) {
	storetest.RunKnowledge(t, func(t *testing.T) store.Store { return open(t, "") })
}

func TestMemoryIsNotShared(t *testing.T) {
	one, other := open(t, ":memory:"), open(t, ":memory:")
	key := store.Key{Namespace: "n", ThreadID: "t"}
	_, err := one.Append(t.Context(), key, store.Batch{})
	require.NoError(t, err)
	_, err = other.Thread(t.Context(), key)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoFileExists(t, ":memory:")
}

func TestTwoStoresOnOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	storetest.RunShared(t, open(t, path), open(t, path))
	storetest.RunSharedAgents(t, open(t, path), open(t, path))
	storetest.RunSharedKnowledge(t, open(t, path), open(t, path))
	storetest.RunSharedEntities(t, open(t, path), open(t, path))
}

func TestOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "a b?#%41.db")
	errs := make(chan error, 6)
	var opening sync.WaitGroup
	for range cap(errs) {
		opening.Go(func() {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		})
	}
	opening.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	key := store.Key{Namespace: "n", ThreadID: "t"}
	first := open(t, path)
	a, err := first.Append(t.Context(), key, store.Batch{Records: []event.Record{message("a")}})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	found, err := open(t, path).Records(t.Context(), key, store.Query{})
	require.NoError(t, err)
	require.Equal(t, a.Records, found)
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: dir})
	require.ErrorContains(t, err, dir)
	notADatabase := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(notADatabase, []byte(strings.Repeat("no database ", 1000)), 0o600))
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: notADatabase})
	require.ErrorContains(t, err, notADatabase)
	_, err = sqlite.Open(t.Context(), sqlite.Config{Readers: -1})
	require.ErrorContains(t, err, "Config.Readers")
}

// envVictim makes the test binary the process to kill.
const envVictim = "THREADMILL_TEST_SQLITE_VICTIM"

// TestDiskFull: a store without room for another record is unavailable, and says why.
func TestDiskFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	key := store.Key{Namespace: "n", ThreadID: "t"}
	fill := func() error {
		big := event.NewRecord("", event.TypeMessage, "trace", "", time.Unix(1, 0), strings.Repeat("x", 100<<10))
		big.ID = rand.Text()
		_, err := s.Append(t.Context(), key, store.Batch{Records: []event.Record{big}})
		return err
	}
	require.NoError(t, fill())
	require.NoError(t, sqlite.LimitPages(t.Context(), s, 0))
	require.ErrorIs(t, fill(), store.ErrUnavailable)
	err := s.Ping(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, store.ReasonFull, store.ReasonOf(err))
	_, err = s.Thread(t.Context(), key)
	require.NoError(t, err, "it can be read")

	require.NoError(t, sqlite.LimitPages(t.Context(), s, 1_000_000))
	require.NoError(t, s.Ping(t.Context()), "as soon as there is room")
	require.NoError(t, fill())
}

// TestOlderProgram: a program that does not know what a migration has changed does not start; one
// that the migration allows does.
func TestOlderProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	require.NoError(t, open(t, path).Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `INSERT INTO threadmill_migrations (version_id, is_applied) VALUES (1000, 1)`)
	require.NoError(t, err)
	require.NoError(t, open(t, path).Close(), "while workers are replaced, the previous version works with the new tables")

	_, err = db.ExecContext(t.Context(), `UPDATE compatibility SET lowest_version = 900`)
	require.NoError(t, err)
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	var old *store.VersionError
	require.ErrorAs(t, err, &old)
	require.Equal(t, store.VersionError{Database: 1000, Lowest: 900, Program: 12}, *old)
	require.ErrorContains(t, err, "start a newer version of Threadmill")
}

// TestMarksOfOlderPrograms: a thread that waited before the store knew since when has done so since its last change.
func TestMarksOfOlderPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, key := open(t, path), store.Key{Namespace: "n", ThreadID: "t"}
	waits := event.NewRecord("c.request", event.TypeApprovalRequest, "", "", time.Now(), event.ApprovalRequest{ToolCallID: "c"}).In("e")
	_, err := s.Append(t.Context(), key, store.Batch{Records: []event.Record{waits}})
	require.NoError(t, err)
	require.NoError(t, sqlite.Downgrade(t.Context(), s, 9))
	older, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer older.Close()
	_, err = older.ExecContext(t.Context(), "UPDATE threads SET updated_at = updated_at + 1000000")
	require.NoError(t, err)
	row, err := open(t, path).Thread(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, store.ActivityWaiting, row.Activity)
	require.Equal(t, row.UpdatedAt, row.ActivitySince)
}

// TestTokensOfOlderPrograms: the model calls that were stored before the store counted tokens count too.
func TestTokensOfOlderPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, key := open(t, path), store.Key{Namespace: "n", ThreadID: "t"}
	call := event.NewRecord("m", event.TypeLLMCall, "", "", time.Now(), event.LLMCall{Usage: event.Usage{InputTokens: 30, OutputTokens: 4}})
	_, err := s.Append(t.Context(), key, store.Batch{Records: []event.Record{call}})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), store.Key{Namespace: "n", ThreadID: "none"}, store.Batch{})
	require.NoError(t, err)
	require.NoError(t, sqlite.Downgrade(t.Context(), s, 10))
	s = open(t, path)
	for id, want := range map[string]int64{"t": 34, "none": 0} {
		row, err := s.Thread(t.Context(), store.Key{Namespace: "n", ThreadID: id})
		require.NoError(t, err)
		require.Equal(t, want, row.Tokens, id)
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	key := store.Key{Namespace: "n", ThreadID: "t"}
	if path := os.Getenv(envVictim); path != "" {
		appendForever(t, path, key)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for range 3 {
		before, err := open(t, path).Records(t.Context(), key, store.Query{Newest: true, Limit: 1})
		require.NoError(t, err)
		told := runAndKill(t, path, 50)
		s := open(t, path)
		row, err := s.Thread(t.Context(), key)
		require.NoError(t, err)
		require.GreaterOrEqual(t, row.Head, told, "what was told to be stored is stored")
		if len(before) > 0 {
			require.Greater(t, told, before[0].Seq)
		}
		require.Zero(t, row.Head%3, "no half batch")
		newest, err := s.Records(t.Context(), key, store.Query{Newest: true, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, row.Head, newest[0].Seq)
	}
}

// runAndKill starts the victim, kills it after it has reported n appends, and returns the last head
// that it reported.
func runAndKill(t *testing.T, path string, n int) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcessLosesNothing$")
	cmd.Env = append(os.Environ(), envVictim+"="+path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var head int64
	lines := bufio.NewScanner(out)
	for range n {
		require.True(t, lines.Scan(), "the victim ended by itself")
		_, err := fmt.Sscan(lines.Text(), &head)
		require.NoError(t, err, lines.Text())
	}
	require.NoError(t, cmd.Process.Kill())
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), ".") {
			_, _ = fmt.Sscan(lines.Text(), &head)
		}
	}
	require.Error(t, cmd.Wait())
	return head
}

func appendForever(t *testing.T, path string, key store.Key) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	require.NoError(t, err)
	row, err := s.Thread(context.Background(), key)
	if err != nil {
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	for n := row.Head; ; n += 3 {
		a, err := s.Append(context.Background(), key, store.Batch{Records: []event.Record{
			message(fmt.Sprint(n)), message(fmt.Sprint(n + 1)), message(fmt.Sprint(n + 2)),
		}})
		require.NoError(t, err)
		fmt.Printf("%d .\n", a.Head)
	}
}

func message(id string) event.Record {
	return event.NewRecord(id, event.TypeMessage, "trace", "", time.Now(), event.Message{ID: id, Content: "hello"})
}

func BenchmarkAppend(b *testing.B) {
	for name, path := range map[string]string{"memory": "", "file": filepath.Join(b.TempDir(), "store.db")} {
		b.Run(name, func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
			require.NoError(b, err)
			defer s.Close()
			key := store.Key{Namespace: "n", ThreadID: "t" + fmt.Sprint(b.N)}
			for i := 0; b.Loop(); i++ {
				_, err := s.Append(b.Context(), key, store.Batch{Records: []event.Record{
					message(fmt.Sprint(i, "a")), message(fmt.Sprint(i, "b")), message(fmt.Sprint(i, "c")),
				}})
				require.NoError(b, err)
			}
		})
	}
}
