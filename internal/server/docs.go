package server

import (
	"embed"
	"net/http"
)

//go:embed docs
var docs embed.FS

// registerDocs serves a page that shows /openapi.json and needs nothing from elsewhere.
func (c *core) registerDocs(mux *http.ServeMux) {
	for _, format := range []string{".json", ".yaml", "-3.0.json", "-3.0.yaml"} {
		c.access.routes["GET "+openAPIPath+format] = route{role: public} // which huma serves
	}
	for path, file := range map[string]struct{ name, contentType string }{
		"GET /docs":          {"docs/index.html", "text/html; charset=utf-8"},
		"GET /docs/docs.js":  {"docs/docs.js", "text/javascript; charset=utf-8"},
		"GET /docs/docs.css": {"docs/docs.css", "text/css; charset=utf-8"},
	} {
		content, err := docs.ReadFile(file.name)
		if err != nil {
			panic("server: embedded file is missing: " + err.Error())
		}
		c.access.handle(mux, route{role: public}, path, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", file.contentType)
			h.Set("Cache-Control", "no-cache")
			h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'")
			// The client may have gone: nothing to do then.
			_, _ = w.Write(content)
		})
	}
}
