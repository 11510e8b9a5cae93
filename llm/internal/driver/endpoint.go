// Package driver is what the drivers of HTTP providers have in common: the endpoint, timeouts,
// errors, and names that providers accept.
package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Endpoint is a provider's server, and the account that calls it.
type Endpoint struct {
	// Name is the name of the provider in errors.
	Name string

	APIKey     string
	BaseURL    string
	HTTPClient *http.Client
	Timeouts   llm.Timeouts

	// Account identifies the account where a cloud's credentials take the place of the API key.
	Account string
}

// Complete validates the endpoint and sets defaults: a name, and the address of the provider itself,
// which needs a key. The error begins with the name of a field.
func (e *Endpoint) Complete(name, official string) error {
	if e.BaseURL == "" {
		e.BaseURL = official
	}
	e.BaseURL = strings.TrimRight(e.BaseURL, "/")
	if e.Name == "" {
		e.Name = name
	}
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("BaseURL: must be an http or https address such as %s", official)
	}
	if e.APIKey == "" && e.Account == "" && e.BaseURL == official {
		return fmt.Errorf("APIKey: is required for %s; set it, or BaseURL for another server", u.Host)
	}
	for _, t := range []struct {
		field    string
		value    *time.Duration
		standard time.Duration
	}{
		{"Timeouts.Start", &e.Timeouts.Start, 10 * time.Minute},
		{"Timeouts.Idle", &e.Timeouts.Idle, 5 * time.Minute},
	} {
		if *t.value < 0 {
			return fmt.Errorf("%s: must not be negative; 0 means %s", t.field, t.standard)
		}
		if *t.value == 0 {
			*t.value = t.standard
		}
	}
	return nil
}

// Client returns an HTTP client whose transport fills the [Exchange] in the context of a request, and
// passes the body of each successful response through body.
func (e *Endpoint) Client(body Body) *http.Client {
	client := &http.Client{}
	if e.HTTPClient != nil {
		*client = *e.HTTPClient
	}
	if client.Transport == nil {
		client.Transport = newTransport()
	}
	client.Transport = &transport{base: client.Transport, timeouts: e.Timeouts, body: body}
	return client
}

func newTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := standard.Clone()
	t.MaxIdleConnsPerHost = 100 // all threads call the same host
	return t
}

// Origin returns the origin of the opaque parts of replies: the provider with its protocol, the
// model, and the account, without its key.
func (e *Endpoint) Origin(protocol, model string) event.Origin {
	sum := sha256.Sum256([]byte(e.BaseURL + "\n" + e.APIKey + e.Account))
	return event.Origin{Provider: protocol, Model: model, Key: hex.EncodeToString(sum[:6])}
}

// ErrNoAPI means that a web page came instead of a reply.
var ErrNoAPI = errors.New("a web page came instead of a reply; check the BaseURL, which usually ends in the version")
