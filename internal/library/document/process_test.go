package document_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/library/document"
	"github.com/threadmill/threadmill/internal/library/document/documenttest"
)

// TestReadHostile reads what is made to exhaust its reader: each document has a text or a reason, and others are read meanwhile.
func TestReadHostile(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for name, content := range documenttest.Hostile() {
		all.Go(func() {
			start := time.Now()
			_, err := document.Read(t.Context(), document.File{Name: name, Content: content}, document.Limits{})
			t.Logf("%s, %d bytes, %s: %v", name, len(content), time.Since(start).Round(time.Millisecond), err)
			if err != nil {
				reason, ok := errors.AsType[*document.Error](err)
				if !ok {
					t.Errorf("%s: %v", name, err)
					return
				}
				if len(reason.Reason) > 300 || strings.Contains(reason.Reason, "\n") {
					t.Errorf("%s: the reason is no line for a person: %q", name, reason.Reason)
				}
			}
		})
	}
	all.Wait()
}

// TestReadRepaired: what PDFium repairs, as browsers do, has its text.
func TestReadRepaired(t *testing.T) {
	t.Parallel()
	hostile := documenttest.Hostile()
	for name, want := range map[string]string{"an xref that loops.pdf": "text", "an open string.pdf": "before", "four thousand million.pdf": "text"} {
		read, err := document.Read(t.Context(), document.File{Name: name, Content: hostile[name]}, document.Limits{})
		require.NoError(t, err, name)
		require.NotEmpty(t, read.Blocks, name)
		require.Contains(t, read.Blocks[0].Text, want, name)
	}
}

// TestReadEndsItsProcess: what a process is not given ends it, and its document has failed for good.
func TestReadEndsItsProcess(t *testing.T) {
	t.Parallel()
	busy := document.File{Name: "a.txt", Content: []byte(strings.Repeat("a\n\n", 16<<20))} // for many seconds
	for _, c := range []struct {
		name   string
		file   document.File
		memory int
		cpu    time.Duration
		want   string
	}{
		{"memory", document.File{Name: "a.txt", Content: []byte(strings.Repeat("word ", 5<<20))}, 16 << 20, time.Minute, "reading the document takes more than 16 MiB of memory, which is the limit for its size"},
		{"CPU", busy, 8 << 30, time.Second, "reading the document takes more than 1s, which is the limit for its size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := document.ReadWithin(t.Context(), c.file, c.memory, c.cpu)
			var reason *document.Error
			require.ErrorAs(t, err, &reason)
			require.Equal(t, c.want, reason.Reason)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := document.ReadWithin(ctx, busy, 512<<20, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
