package testenv

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// PGlite returns the URL of a PostgreSQL that runs in Node.js, for this test only. It has pgvector, which few machines have. It is
// slow, and has one session, whatever the number of connections: a store may have one connection, which caches no prepared
// statements, and Config.Schema has no effect.
func PGlite(t testing.TB) string {
	t.Helper()
	const path = "@electric-sql/pglite-pgvector"
	if _, err := os.Stat(NPM(t, path)); err != nil {
		present(t, "node", path, "run npm ci in "+npmDir, fmt.Errorf("%s: %w", filepath.Base(path), errAbsent))
	}
	cmd := Node(t, "pglite.mjs")
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("PGlite did not start: %v", err)
	}
	return "postgres://postgres@127.0.0.1:" + strings.TrimSpace(port) + "/postgres?sslmode=disable&default_query_exec_mode=cache_describe"
}
