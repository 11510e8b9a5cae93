package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"

	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/store"
)

// uploadMemory bounds the bytes of all files that are uploaded at once. It leaves room for other requests in the memory of
// [guard.Limits], which counts bodies twice.
const uploadMemory = 48 << 20

// uploads admits files whose sizes together fit in uploadMemory.
type uploads struct{ room *semaphore.Weighted }

func newUploads() uploads { return uploads{semaphore.NewWeighted(uploadMemory)} }

// FileBody is the body of a request that is the file itself, of any media type. Huma would hold it twice.
type FileBody struct {
	reader    io.Reader
	length    int64 // negative = not stated
	mediaType string
}

// Resolve implements [huma.Resolver].
func (b *FileBody) Resolve(ctx huma.Context) []error {
	b.reader, b.length, b.mediaType = ctx.BodyReader(), -1, ctx.Header("Content-Type")
	if n, err := strconv.ParseInt(ctx.Header("Content-Length"), 10, 64); err == nil {
		b.length = n
	}
	return nil
}

// FileQuery is what a request says about a file.
type FileQuery struct {
	Source       string `query:"source" required:"true" doc:"The name of the file, by which it is found: its path, or any name. The ending says what it is, unless the media type does"`
	Collection   string `query:"collection" doc:"The collection that it belongs to. Default: default"`
	Title        string `query:"title" doc:"Its title. Default: the one that the file states"`
	Thread       string `query:"thread" doc:"A thread that is told when the file is indexed or has failed. Default: none"`
	ForceReindex bool   `query:"forceReindex" doc:"Index it even if it has not changed"`
}

type uploadFileInput struct {
	FileBody
	FileQuery
}

// fileBodyDoc describes the body of an upload.
var fileBodyDoc = &huma.RequestBody{
	Description: "The file. Its media type may be left out, or be application/octet-stream: then the name says what it is", Required: true,
	Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
}

func (h *knowledgeHandlers) upload(ctx context.Context, in *uploadFileInput) (*knowledgeOutput, error) {
	to, err := checkAddition(ctx, "query.", addition{
		source: in.Source, collection: in.Collection, title: in.Title, thread: in.Thread, force: in.ForceReindex,
	})
	if err != nil {
		return nil, err
	}
	size := in.length
	switch {
	case size > h.maxUpload:
		return nil, h.fileTooLarge(fmt.Sprintf("is %d bytes", size))
	case size < 0:
		size = h.maxUpload
	}
	release, err := h.uploads.admit(ctx, h.core, size)
	if err != nil {
		return nil, err
	}
	defer release()
	content, err := h.readFile(ctx, &in.FileBody, size)
	if err != nil {
		return nil, err
	}
	to.Content = library.Given(in.Source, in.mediaType, content)
	return h.ingest(ctx, "query.", to)
}

// admit waits until there is room for a file.
func (u uploads) admit(ctx context.Context, c *core, size int64) (release func(), err error) {
	within, cancel := c.answer(ctx)
	defer cancel()
	if u.room.Acquire(within, size) != nil {
		if ctx.Err() != nil {
			return nil, clientGone()
		}
		return nil, later(http.StatusServiceUnavailable, "1", "too many files are being uploaded; retry")
	}
	return func() { u.room.Release(size) }, nil
}

// readFile reads a file of at most a size.
func (h *knowledgeHandlers) readFile(ctx context.Context, b *FileBody, size int64) ([]byte, error) {
	guard.AllowBody(ctx, size)
	var content bytes.Buffer
	if b.length > 0 {
		content.Grow(int(b.length) + bytes.MinRead) // as ReadFrom wants, so that it copies nothing
	}
	n, err := content.ReadFrom(io.LimitReader(b.reader, h.maxUpload+1))
	switch {
	case n > h.maxUpload:
		return nil, h.fileTooLarge("is larger")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, huma.NewError(http.StatusRequestTimeout, "the file did not arrive in time; a client must send at least 256 KiB a second")
	case err != nil && ctx.Err() != nil:
		return nil, clientGone()
	case err != nil:
		return nil, huma.Error400BadRequest("the body cannot be read: it ends early, or is not valid")
	}
	return content.Bytes(), nil
}

func (h *knowledgeHandlers) fileTooLarge(why string) error {
	return refuse(http.StatusRequestEntityTooLarge, "body", fmt.Sprintf(
		"the file %s; at most %d bytes (%d MiB) are read: split it, or upload the text without its images", why, h.maxUpload, h.maxUpload>>20))
}

// maxUpload is the default and the maximum of Config.MaxUpload.
const maxUpload = store.MaxKnowledgeContent
