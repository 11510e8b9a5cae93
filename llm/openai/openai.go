package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

const officialURL = "https://api.openai.com/v1"

// Config configures the driver. Only APIKey is required, and only for OpenAI itself.
type Config struct {
	// APIKey is sent as the bearer token. Errors never contain it.
	APIKey string

	// BaseURL is the address of the server, up to and including the version, such as
	// http://localhost:11434/v1. Default: https://api.openai.com/v1.
	BaseURL string

	// Azure calls the deployments of a resource of Azure OpenAI. BaseURL is then its address, such as
	// https://my-resource.openai.azure.com, and APIKey is sent in the header api-key.
	Azure *Azure

	// Dialect is what the server takes and wants: one of [Dialects]. Default: [DialectOpenAI] for OpenAI itself and Azure, and otherwise
	// [DialectCompatible].
	Dialect string

	// Organization is the OpenAI organization id, for accounts with several.
	Organization string

	// Name is the name of the provider in errors. Default "openai".
	Name string

	// Summary is the kind of summary of its reasoning that a model writes as its thought, for the
	// Responses API: auto, concise, detailed or [SummaryOff]. Default auto. OpenAI lets only verified
	// organizations see the summaries of some models.
	Summary string

	// HTTPClient sends the requests. Default: a separate client without a timeout.
	HTTPClient *http.Client

	Timeouts llm.Timeouts
}

// SummaryOff is the [Config].Summary for models that must not be asked for summaries.
const SummaryOff = "off"

// Provider calls the models of one server by the Chat Completions API. It is safe for concurrent use.
type Provider struct {
	endpoint driver.Endpoint
	client   *sdk.Client
	http     *http.Client // for what the SDK does not know
	azure    *Azure
	summary  string
	dialect  dialect
	learned  *learned
}

var _ llm.Provider = (*Provider)(nil)

// New returns a driver. It does not connect to the server.
func New(config Config) (*Provider, error) {
	p := &Provider{summary: config.Summary, learned: &learned{}, endpoint: driver.Endpoint{
		Name: config.Name, APIKey: config.APIKey, BaseURL: config.BaseURL, HTTPClient: config.HTTPClient, Timeouts: config.Timeouts,
	}}
	var c sdk.ClientConfig
	var err error
	if p.azure = config.Azure; p.azure != nil {
		c, err = p.azureConfig()
	} else {
		err = p.endpoint.Complete("openai", officialURL)
		c = sdk.DefaultConfig(config.APIKey)
	}
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	if p.dialect, err = p.dialectOf(config.Dialect); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	p.http = p.endpoint.Client(body)
	p.http.Transport = &extraTransport{p.http.Transport}
	c.BaseURL, c.OrgID, c.HTTPClient = p.endpoint.BaseURL, config.Organization, p.http
	p.client = sdk.NewClientWithConfig(c)
	return p, nil
}

// dialectOf returns the dialect of a name, or the default.
func (p *Provider) dialectOf(name string) (dialect, error) {
	if name == "" {
		name = DialectCompatible
		if p.official() {
			name = DialectOpenAI
		}
	}
	d, ok := dialects[name]
	if !ok {
		return d, fmt.Errorf("%q is no dialect: use %s", name, strings.Join(Dialects(), ", "))
	}
	return d, nil
}

// official reports whether the server is OpenAI's own, or Azure's.
func (p *Provider) official() bool { return p.azure != nil || p.endpoint.BaseURL == officialURL }

// Generate calls the model. It streams the reply if onDelta is set.
func (p *Provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return p.endpoint.Generate(ctx, req, onDelta, p.send, said)
}

func (p *Provider) send(ctx context.Context, c *driver.Call) error {
	for {
		r := &reply{Reply: c.Reply}
		b := &replyBody{exchange: c.Exchange, stream: c.Stream}
		wire, extras := p.request(c.Request, c.Names)
		within := context.WithValue(context.WithValue(ctx, bodyKey{}, b), extraKey{}, extras)
		send := p.whole
		if c.Stream {
			send = p.stream
			if !p.learned.refuses(c.Request.Model, fieldStreamOptions) {
				wire.StreamOptions = &sdk.StreamOptions{IncludeUsage: true}
			}
		}
		err := send(within, wire, b, r)
		if err == nil {
			return r.seal(p.origin(c.Request.Model), p.thoughts(c.Request.Model))
		}
		// A field that the server refuses clearly is left out, and one that it requires is added, at once and from then on.
		if !p.learned.learn(c.Request.Model, c.Exchange.Status, said(c.Exchange, err), fieldsOf(wire, extras)) {
			return err
		}
	}
}

func (p *Provider) origin(model string) event.Origin { return p.endpoint.Origin("openai-chat", model) }

func (p *Provider) stream(ctx context.Context, wire sdk.ChatCompletionRequest, b *replyBody, r *reply) error {
	// The calls of a reply that broke off are incomplete, and dropped.
	defer r.finish()
	s, err := p.client.CreateChatCompletionStream(ctx, wire)
	if err != nil {
		return err
	}
	defer s.Close()
	err = driver.Receive(ctx, func() ([]byte, error) {
		raw, err := s.RecvRaw()
		if err != nil && ctx.Err() == nil && r.FinishReason != "" {
			return nil, io.EOF // only the usage is missing
		}
		return raw, err
	}, r.take)
	if err == nil && r.FinishReason == "" && (!b.done || r.empty()) {
		return driver.ErrBrokenOff
	}
	return err
}

func (p *Provider) whole(ctx context.Context, wire sdk.ChatCompletionRequest, b *replyBody, r *reply) error {
	defer r.finish()
	if _, err := p.client.CreateChatCompletion(ctx, wire); err != nil {
		return err
	}
	if err := r.take(b.whole); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.chosen {
		return &driver.Unreadable{Err: fmt.Errorf("it has no choices: %s", b.whole)}
	}
	return nil
}
