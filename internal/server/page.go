package server

import (
	"net/http"

	webpage "github.com/threadmill/threadmill/internal/page"
)

// registerPage serves the web page. It is public: what it shows, it asks the API for.
func (c *core) registerPage(mux *http.ServeMux) {
	for _, file := range webpage.Files() {
		c.access.handle(mux, route{role: public}, file.Pattern, file.ServeHTTP)
	}
}
