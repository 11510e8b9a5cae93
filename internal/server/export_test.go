package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
)

// UndeclaredRoute returns the status of a route that was added to a mux without a role.
func UndeclaredRoute() int {
	a := &access{logger: slog.New(slog.DiscardHandler), routes: map[string]route{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /undeclared", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	rec := httptest.NewRecorder()
	a.explainUnmatched(mux).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/undeclared", nil))
	return rec.Code
}
