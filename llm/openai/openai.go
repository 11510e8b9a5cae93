package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/llm"
)

const officialURL = "https://api.openai.com/v1"

// Config of the driver. Only APIKey is required, and only for OpenAI itself.
type Config struct {
	// APIKey is sent as the bearer token. It appears in no error.
	APIKey string

	// BaseURL of a compatible server, up to and including its version, such as
	// http://localhost:11434/v1. Default: https://api.openai.com/v1.
	BaseURL string

	// Organization is OpenAI's organization id, where an account has several.
	Organization string

	// Name of the provider in errors. Default: openai.
	Name string

	// HTTPClient makes the requests. Default: a client of its own, without a timeout.
	HTTPClient *http.Client

	Timeouts Timeouts
}

// Timeouts end a call that has gone silent, with an error that allows a retry. A
// call as a whole is bounded by its context only.
type Timeouts struct {
	// Start is how long the reply may take to begin, or to arrive when it is not
	// streamed. Default: 10 minutes.
	Start time.Duration

	// Idle is how long a stream may pause. Default: 5 minutes.
	Idle time.Duration
}

// Provider calls one server. It is safe for concurrent use.
type Provider struct {
	config Config
	client *sdk.Client
}

var _ llm.Provider = (*Provider)(nil)

// New makes a driver. It does not connect.
func New(config Config) (*Provider, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	httpClient := &http.Client{}
	if config.HTTPClient != nil {
		*httpClient = *config.HTTPClient
	}
	base := httpClient.Transport
	if base == nil {
		base = newTransport()
	}
	httpClient.Transport = &watcher{base: base, timeouts: config.Timeouts}

	c := sdk.DefaultConfig(config.APIKey)
	c.BaseURL, c.OrgID, c.HTTPClient = config.BaseURL, config.Organization, httpClient
	return &Provider{config: config, client: sdk.NewClientWithConfig(c)}, nil
}

func (c *Config) complete() error {
	if c.BaseURL == "" {
		c.BaseURL = officialURL
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.Name == "" {
		c.Name = "openai"
	}
	if u, err := url.Parse(c.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("BaseURL: must be an http or https address such as http://localhost:11434/v1")
	}
	if c.APIKey == "" && c.official() {
		return errors.New("APIKey: is required for api.openai.com; set it, or BaseURL for another server")
	}
	for _, t := range []struct {
		field    string
		value    *time.Duration
		standard time.Duration
	}{
		{"Timeouts.Start", &c.Timeouts.Start, 10 * time.Minute},
		{"Timeouts.Idle", &c.Timeouts.Idle, 5 * time.Minute},
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

func (c *Config) official() bool { return c.BaseURL == officialURL }

func newTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := standard.Clone()
	t.MaxIdleConnsPerHost = 100 // one host serves every thread
	return t
}

// Generate calls the model, streaming if onDelta is set.
func (p *Provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exchange{stream: onDelta != nil, cancel: cancel}
	inner = context.WithValue(inner, exchangeKey{}, x)

	names := newToolNames(req.Tools)
	reply := newReply(onDelta)
	wire := p.request(req, names)
	var err error
	if x.stream {
		err = p.stream(inner, wire, x, reply)
	} else {
		err = p.whole(inner, wire, x, reply)
	}
	resp := reply.finish()
	if resp.Model == "" {
		resp.Model = req.Model
	}
	if err != nil {
		resp.Type, resp.ToolCalls = llm.TypeText, nil
		return resp, p.classify(ctx, inner, x, err)
	}
	names.restore(resp.ToolCalls)
	llm.AssignIDs(resp.ToolCalls, req.Messages)
	return resp, nil
}

func (p *Provider) stream(ctx context.Context, wire sdk.ChatCompletionRequest, x *exchange, r *reply) error {
	wire.StreamOptions = &sdk.StreamOptions{IncludeUsage: true}
	s, err := p.client.CreateChatCompletionStream(ctx, wire)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		raw, err := s.RecvRaw()
		switch {
		case errors.Is(err, io.EOF):
			if r.finishReason == "" && (!x.done || r.empty()) {
				return errBrokenOff
			}
			return nil
		case err != nil && ctx.Err() == nil && r.finishReason != "":
			return nil // all but the usage had arrived
		case err != nil:
			return err
		}
		if err := r.take(raw); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (p *Provider) whole(ctx context.Context, wire sdk.ChatCompletionRequest, x *exchange, r *reply) error {
	if _, err := p.client.CreateChatCompletion(ctx, wire); err != nil {
		return err
	}
	if err := r.take(x.body); err != nil {
		return err
	}
	if !r.chosen {
		return errBrokenOff
	}
	return nil
}

// toolArguments are a call's arguments as servers take them: always JSON, because
// some parse the arguments of past calls and refuse the request if they cannot.
func toolArguments(s string) string {
	if json.Valid([]byte(s)) {
		return s
	}
	b, _ := json.Marshal(map[string]string{"invalidJson": s}) // strings always have a JSON form
	return string(b)
}
