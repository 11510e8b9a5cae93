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

// Config configures the driver. Only APIKey is required, and only for OpenAI itself.
type Config struct {
	// APIKey is sent as the bearer token. Errors never contain it.
	APIKey string

	// BaseURL of a compatible server, up to and including its version, such as
	// http://localhost:11434/v1. Default: https://api.openai.com/v1.
	BaseURL string

	// Organization is the OpenAI organization id, for accounts with several.
	Organization string

	// Name is the name of the provider in errors. Default "openai".
	Name string

	// HTTPClient sends the requests. Default: a separate client without a timeout.
	HTTPClient *http.Client

	Timeouts Timeouts
}

// Timeouts end calls to servers that no longer respond, with a retryable error. Only the context
// limits the duration of a whole call.
type Timeouts struct {
	// Start is the maximum time until the reply begins or, if it is not streamed, arrives. Default
	// 10 minutes.
	Start time.Duration

	// Idle is the maximum time between two pieces of a stream. Default 5 minutes.
	Idle time.Duration
}

// Provider calls the models of one server. It is safe for concurrent use.
type Provider struct {
	config Config
	client *sdk.Client
}

var _ llm.Provider = (*Provider)(nil)

// New returns a driver. It does not connect to the server.
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
	t.MaxIdleConnsPerHost = 100 // all threads call the same host
	return t
}

// Generate calls the model. It streams the reply if onDelta is set.
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
			return nil // only the usage is missing
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

// toolArguments returns the arguments of a call as JSON, because some servers parse the arguments
// of past calls and reject requests with invalid ones.
func toolArguments(s string) string {
	if json.Valid([]byte(s)) {
		return s
	}
	b, _ := json.Marshal(map[string]string{"invalidJson": s}) // strings can always be marshalled
	return string(b)
}
