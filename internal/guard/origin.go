package guard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/cors"
)

// Origins are the origins, such as https://app.example, whose web pages may call a listener from
// another host. The listener's own pages always may.
type Origins []string

// preflightAge is the time for which browsers keep the response to a preflight request.
const preflightAge = 10 * time.Minute

// Validate returns an error unless each origin is a scheme and a host, with a port if it is not the
// default one.
func (o Origins) Validate() error {
	for _, origin := range o {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Contains(u.Host, "*") || origin != u.Scheme+"://"+u.Host {
			return fmt.Errorf("%.128q is not an origin, such as https://app.example or http://localhost:5173", origin)
		}
	}
	return nil
}

// Handler rejects requests that other web sites make a browser send, with refuse, and answers the
// preflight requests of the origins. Requests carry API keys in a header, never in cookies, so that
// credentials are not allowed.
func (o Origins) Handler(next http.Handler, refuse func(http.ResponseWriter, error)) http.Handler {
	protection := http.NewCrossOriginProtection()
	for _, origin := range o {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			panic("guard: an origin was not validated: " + err.Error())
		}
	}
	checked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := protection.Check(r); err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
	if len(o) == 0 {
		return checked
	}
	return cors.New(cors.Options{
		AllowedOrigins: o,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"Location", "Retry-After", "X-Request-Id", "X-Workflow-Run-Id", "Mcp-Session-Id", "X-Vercel-Ai-Ui-Message-Stream"},
		MaxAge:         int(preflightAge.Seconds()),
	}).Handler(checked)
}
