package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/library/document/format"
	"github.com/threadmill/threadmill/store"
)

const (
	// ingestsAtOnce is how many documents are uploaded, or waited for, at once.
	ingestsAtOnce = 4

	// ingestTick is the interval at which a document is looked at while it is processed.
	ingestTick = 250 * time.Millisecond

	// uploadAttempts is how often a document is sent while the server has no room for it.
	uploadAttempts = 5
)

func (a knowledgeCommands) addCommand() *cobra.Command {
	var to api.NewDocument
	var noWait bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "add <source> [source…]",
		Short: "Add documents: URLs, files and directories",
		Long: `Add documents: URLs, files and directories, with all files below them. Text, Markdown, HTML, PDF,
DOCX, CSV and source code are read. Of a directory, hidden files, node_modules, empty files and
files of other kinds are skipped. A file of a directory is named by its path below it.

A document that exists is replaced, and one that has not changed is left as it is. The command
waits until all documents are indexed, and fails if one of them does.`,
		Example: `  starter knowledge add https://example.com/handbook.pdf
  starter knowledge add --collection guides ./docs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, skipped, err := collectDocuments(args)
			if err != nil {
				return err
			}
			if to.Title != "" && len(files) > 1 {
				return usagef("--title is for one document, and there are %d", len(files))
			}
			all := make([]addition, len(files))
			for i, f := range files {
				d := to
				d.Source = f.source
				all[i] = addition{f.source, f.sender(d)}
			}
			return a.ingest(cmd.Context(), !noWait, all, skipped)
		},
	})
	f := cmd.Flags()
	f.StringVar(&to.Collection, "collection", "", "the collection that they belong to (default "+store.DefaultCollection+")")
	f.StringVar(&to.Title, "title", "", "the title of the document (default: the one that it states)")
	f.StringVar(&to.Thread, "thread", "", "a thread that is told when they are indexed")
	f.BoolVar(&to.ForceReindex, "force", false, "index them even if they have not changed")
	noWaitFlag(cmd, &noWait)
	return cmd
}

// documentFile is a document that an argument names. Its path is empty for a URL.
type documentFile struct{ source, path string }

// sender returns what adds the document.
func (f documentFile) sender(d api.NewDocument) func(context.Context, *api.Client) (store.KnowledgeDocument, error) {
	return func(ctx context.Context, client *api.Client) (store.KnowledgeDocument, error) {
		if f.path == "" {
			return client.AddDocument(ctx, d)
		}
		content, err := readDocument(f.path)
		if err != nil {
			return store.KnowledgeDocument{}, err
		}
		return client.UploadDocument(ctx, d, "application/octet-stream", content)
	}
}

func readDocument(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, store.MaxKnowledgeContent+1))
	if err == nil && len(content) > store.MaxKnowledgeContent {
		err = fmt.Errorf("the file is larger than %d MiB: split it", store.MaxKnowledgeContent>>20)
	}
	return content, err
}

// skippedFiles counts the files of directories that are not added, by the reason.
type skippedFiles map[string]int

// String returns the counts, such as "2 hidden, 1 empty".
func (s skippedFiles) String() string {
	var all []string
	for why, count := range s {
		all = append(all, fmt.Sprintf("%d %s", count, why))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// collectDocuments returns the documents that arguments name. Two with the same source are an error: the later one would
// replace the other.
func collectDocuments(args []string) (all []documentFile, skipped skippedFiles, err error) {
	skipped = skippedFiles{}
	for _, arg := range args {
		found, err := documentsOf(arg, skipped)
		if err != nil {
			return nil, nil, usageError{err}
		}
		all = append(all, found...)
	}
	seen := map[string]string{}
	for _, f := range all {
		if before, ok := seen[f.source]; ok {
			return nil, nil, usagef("%s and %s would both be %q: add them to different collections", before, f.path, f.source)
		}
		seen[f.source] = f.path
	}
	return all, skipped, nil
}

func documentsOf(arg string, skipped skippedFiles) ([]documentFile, error) {
	if strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") {
		return []documentFile{{source: arg}}, nil
	}
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is neither a file, nor a directory, nor a URL that begins with https:// or http://", arg)
	case err != nil:
		return nil, err
	case info.IsDir():
		return documentsBelow(arg, skipped)
	}
	source := filepath.ToSlash(filepath.Clean(arg))
	if !filepath.IsLocal(arg) {
		source = filepath.Base(arg) // where it is on this machine says nothing to others
	}
	return []documentFile{{source, arg}}, nil
}

func documentsBelow(root string, skipped skippedFiles) (all []documentFile, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		why, err := skips(entry)
		switch {
		case err != nil:
			return err
		case why != "":
			skipped[why]++
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		source, err := filepath.Rel(root, path)
		all = append(all, documentFile{filepath.ToSlash(source), path})
		return err
	})
	return all, err
}

// skips says why a file or a directory below an argument is not added.
func skips(entry fs.DirEntry) (why string, err error) {
	switch {
	case strings.HasPrefix(entry.Name(), "."):
		return "hidden", nil
	case entry.IsDir() && entry.Name() == "node_modules":
		return "node_modules", nil
	case entry.IsDir():
		return "", nil
	case !entry.Type().IsRegular():
		return "of no regular file", nil
	case !format.Known(entry.Name()):
		return "of an unknown kind", nil
	}
	info, err := entry.Info()
	if err == nil && info.Size() == 0 {
		why = "empty"
	}
	return why, err
}

// addition is a document that is added, or indexed again.
type addition struct {
	source string
	send   func(context.Context, *api.Client) (store.KnowledgeDocument, error)
}

// addResult is how an addition ended, as --json prints it.
type addResult struct {
	Source   string                   `json:"source"`
	Document *store.KnowledgeDocument `json:"document,omitempty"`
	Error    string                   `json:"error,omitempty"`

	unchanged bool
}

func (r addResult) String() string {
	switch {
	case r.Error != "":
		return "failed: " + strings.ReplaceAll(r.Error, "\n", " ")
	case r.unchanged:
		return "has not changed"
	case r.Document.Status == store.KnowledgeIndexed:
		return fmt.Sprintf("indexed, %d chunks", r.Document.Chunks)
	}
	return string(r.Document.Status)
}

// ingest adds documents, a few at once, and prints a line for each when it is done. --timeout does not limit it: Ctrl-C ends it,
// and what was sent is indexed nevertheless.
func (a knowledgeCommands) ingest(ctx context.Context, wait bool, all []addition, skipped skippedFiles) error {
	client, err := a.api()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	results := make([]addResult, len(all))
	var mu sync.Mutex // of the output
	done, failed := 0, 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(ingestsAtOnce)
	for i, one := range all {
		group.Go(func() error {
			result, err := one.ingest(ctx, client, wait)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			results[i] = result
			if done++; result.Error != "" {
				failed++
			}
			if !a.json {
				a.say("[%d/%d] %s: %s", done, len(all), one.source, result)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return a.sum(results, failed, skipped)
}

// sum prints what remains to be said about all documents.
func (a knowledgeCommands) sum(results []addResult, failed int, skipped skippedFiles) error {
	if a.json {
		if err := a.printJSON(map[string]any{"results": results, "skipped": skipped}); err != nil {
			return err
		}
	} else if len(skipped) > 0 {
		a.warn("skipped: %s", skipped)
	}
	switch {
	case len(results) == 0 && !a.json:
		a.warn("there is nothing to add")
	case failed > 0 && !a.json:
		return fmt.Errorf("%d of %d documents failed", failed, len(results))
	case failed > 0:
		return silentError{}
	}
	return nil
}

// ingest adds a document and, if it waits, returns when it is processed. The error is one that all documents would have.
func (one addition) ingest(ctx context.Context, client *api.Client, wait bool) (addResult, error) {
	out := addResult{Source: one.source}
	doc, err := one.persist(ctx, client)
	known := doc.Status == store.KnowledgeIndexed
	if err == nil && wait {
		doc, err = awaitDocument(ctx, client, doc)
	}
	// What has not changed at its address is known only after it was fetched.
	out.unchanged = known || doc.Status == store.KnowledgeIndexed && doc.Indexed != doc.Revision
	switch {
	case err != nil && ofAll(ctx, err):
		return out, err
	case err != nil:
		out.Error = err.Error()
		return out, nil
	}
	out.Document = &doc
	if doc.Status == store.KnowledgeFailed {
		out.Error = doc.Error
	}
	return out, nil
}

// persist sends a document, again while the server has no room for it.
func (one addition) persist(ctx context.Context, client *api.Client) (store.KnowledgeDocument, error) {
	for attempt := 1; ; attempt++ {
		doc, err := one.send(ctx, client)
		if attempt == uploadAttempts || !isBusy(err) {
			return doc, err
		}
		if err := pause(ctx, time.Duration(attempt)*time.Second); err != nil {
			return doc, err
		}
	}
}

// awaitDocument returns a document when its revision is processed, or another one has taken its place.
func awaitDocument(ctx context.Context, client *api.Client, doc store.KnowledgeDocument) (store.KnowledgeDocument, error) {
	id, revision := doc.ID, doc.Revision
	for doc.Status == store.KnowledgeProcessing && doc.Revision == revision {
		if err := pause(ctx, ingestTick); err != nil {
			return doc, err
		}
		now, err := client.Document(ctx, id)
		switch {
		case api.IsNotFound(err):
			return doc, errors.New("it was removed before it was indexed")
		case isBusy(err): // it goes on nevertheless
		case err != nil:
			return doc, err
		default:
			doc = now
		}
	}
	return doc, nil
}

// isBusy reports whether the API asks to come again later.
func isBusy(err error) bool {
	status, ok := errors.AsType[*api.StatusError](err)
	return ok && (status.Code == http.StatusServiceUnavailable || status.Code == http.StatusTooManyRequests)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ofAll reports whether an error is one that all documents would have.
func ofAll(ctx context.Context, err error) bool {
	status, ok := errors.AsType[*api.StatusError](err)
	return ctx.Err() != nil || errors.Is(err, api.ErrUnreachable) ||
		ok && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden)
}
