package server

import (
	"embed"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs
var docs embed.FS

// registerDocs serves the OpenAPI document in its four forms, and a page that shows it and needs
// nothing from elsewhere.
func (c *core) registerDocs(mux *http.ServeMux) {
	api := c.api.OpenAPI()
	for op := range operations(api) {
		for _, parameter := range op.Parameters {
			parameter.Schema.PatternDescription = "" // in the schemas of huma, not of OpenAPI
		}
	}
	doc := sync.OnceValue(func() *huma.OpenAPI { return document(api) })
	for _, form := range []struct {
		path, contentType string
		marshal           func(*huma.OpenAPI) ([]byte, error)
	}{
		{"/openapi.json", "application/openapi+json", (*huma.OpenAPI).MarshalJSON},
		{"/openapi.yaml", "application/openapi+yaml", (*huma.OpenAPI).YAML},
		{"/openapi-3.0.json", "application/openapi+json", func(doc *huma.OpenAPI) ([]byte, error) { return doc.Downgrade() }},
		{"/openapi-3.0.yaml", "application/openapi+yaml", (*huma.OpenAPI).DowngradeYAML},
	} {
		content := sync.OnceValues(func() ([]byte, error) { return form.marshal(doc()) })
		c.access.handle(mux, route{role: public}, "GET "+form.path, func(w http.ResponseWriter, _ *http.Request) {
			data, err := content()
			if err != nil {
				panic(err)
			}
			w.Header().Set("Content-Type", form.contentType)
			// The client may have gone: nothing to do then.
			_, _ = w.Write(data)
		})
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
			h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'")
			// The client may have gone: nothing to do then.
			_, _ = w.Write(content)
		})
	}
}
