// Package page serves the web page: modules as the browser loads them, without a build step.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/clients/typescript"
)

//go:embed web
var web embed.FS

// policy permits the page's own modules, and nothing inline or from other hosts. No text can become
// markup, because there is no policy of trusted types that would let it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// File is a file of the page.
type File struct {
	// Pattern is the pattern of its route.
	Pattern string

	content, compressed []byte
	contentType, tag    string

	// opens means that a browser can show the file by itself.
	opens bool
}

// Files returns the files of the page. They are compressed once for all servers of the process.
var Files = sync.OnceValue(readFiles)

func readFiles() []File {
	files := []File{newFile("GET /page/client/threadmill.js", "threadmill.js", typescript.Client)}
	err := fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := web.ReadFile(name)
		pattern := "GET /page/" + strings.TrimPrefix(name, "web/")
		if name == "web/index.html" {
			pattern = "GET /{$}"
		}
		files = append(files, newFile(pattern, name, content))
		return err
	})
	if err != nil {
		panic("page: embedded files cannot be read: " + err.Error())
	}
	return files
}

func newFile(pattern, name string, content []byte) File {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(content); err != nil {
		panic("page: compressing " + name + ": " + err.Error())
	}
	if err := w.Close(); err != nil {
		panic("page: compressing " + name + ": " + err.Error())
	}
	sum := sha256.Sum256(content)
	ext := path.Ext(name)
	return File{
		Pattern: pattern, content: content, compressed: compressed.Bytes(),
		contentType: contentTypes[ext], opens: ext == ".html" || ext == ".svg", tag: `"` + hex.EncodeToString(sum[:8]) + `"`,
	}
}

// ServeHTTP serves the file, compressed if the browser accepts that. A browser asks each time whether
// it has the current one, so that a page never mixes two versions.
func (f File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	// It applies to what a browser opens, and not to the parts of that.
	if f.opens {
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Etag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.content
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = f.compressed
	}
	// The client may have gone: nothing to do then.
	_, _ = w.Write(content)
}
