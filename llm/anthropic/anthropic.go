package anthropic

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

const officialURL = "https://api.anthropic.com"

// Config configures the driver. Only APIKey is required, and only for Anthropic itself.
type Config struct {
	// APIKey is sent in the header X-Api-Key. Errors never contain it.
	APIKey string

	// BaseURL is the address of the server, without the version. Default:
	// https://api.anthropic.com.
	BaseURL string

	// Name is the name of the provider in errors. Default "anthropic".
	Name string

	// MaxOutputTokens limits replies to requests without a limit, which the API requires. Default:
	// 32,000; 8,192 for Claude 3.5 and 4,096 for Claude 3.
	MaxOutputTokens int

	// Cache is how long Anthropic caches the conversation: "5m", "1h" or "off". Default "5m".
	// Writing to the cache costs a quarter more than plain input, reading from it a tenth.
	Cache string

	// Platform is a cloud that serves the models instead of Anthropic. The packages llm/anthropic/bedrock
	// and llm/anthropic/vertex set it.
	Platform *Platform

	// HTTPClient sends the requests. Default: a separate client without a timeout.
	HTTPClient *http.Client

	Timeouts llm.Timeouts
}

// Platform is a cloud that serves Anthropic's models.
type Platform struct {
	// BaseURL is the address of the cloud. Default of [Config].BaseURL.
	BaseURL string

	// Account identifies the account, whose credentials Options add to requests.
	Account string

	// Options are options of the SDK.
	Options []option.RequestOption
}

// Provider calls the models of one server. It is safe for concurrent use.
type Provider struct {
	endpoint  driver.Endpoint
	maxTokens int
	cache     string
	client    sdk.Client
}

var _ llm.Provider = (*Provider)(nil)

// New returns a driver. It does not connect to the server.
func New(config Config) (*Provider, error) {
	p := &Provider{maxTokens: config.MaxOutputTokens, cache: cmp.Or(config.Cache, "5m"), endpoint: driver.Endpoint{
		Name: config.Name, APIKey: config.APIKey, BaseURL: config.BaseURL, HTTPClient: config.HTTPClient, Timeouts: config.Timeouts,
	}}
	official := officialURL
	if config.Platform != nil {
		official, p.endpoint.Account = config.Platform.BaseURL, config.Platform.Account
	}
	if err := p.endpoint.Complete("anthropic", official); err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	switch {
	case config.Platform != nil && config.APIKey != "":
		return nil, errors.New("anthropic: APIKey: must not be set for a cloud, which has credentials of its own")
	case config.MaxOutputTokens < 0:
		return nil, errors.New("anthropic: MaxOutputTokens: must not be negative")
	case config.Cache != "" && config.Cache != "5m" && config.Cache != "1h" && config.Cache != "off":
		return nil, fmt.Errorf("anthropic: Cache: %q must be 5m, 1h or off", config.Cache)
	}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), // the environment may belong to another account
		option.WithoutOpenTelemetry(),       // Threadmill has the span of a model call
		option.WithMaxRetries(0), option.WithHTTPClient(p.endpoint.Client(body)),
	}
	if config.Platform != nil {
		options = append(options, config.Platform.Options...)
	} else {
		options = append(options, option.WithAPIKey(config.APIKey))
	}
	p.client = sdk.NewClient(append(options, option.WithBaseURL(p.endpoint.BaseURL))...)
	return p, nil
}

func body(x *driver.Exchange, media string, resp *http.Response) error {
	if media == "application/vnd.amazon.eventstream" {
		resp.Body = x.Watch(resp.Body, driver.Frames)
		return nil
	}
	watched := x.Watch(resp.Body, driver.Events)
	resp.Body = &events{body: watched, lines: bufio.NewReader(watched)}
	return nil
}

// Generate calls the model. It always streams the reply, since Anthropic limits other requests.
func (p *Provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return p.endpoint.Generate(ctx, req, onDelta, p.send, said)
}

func (p *Provider) send(ctx context.Context, c *driver.Call) error {
	origin := p.endpoint.Origin("anthropic", c.Request.Model)
	r := &reply{Reply: c.Reply, origin: origin, continues: driver.Continues(c.Request.Messages)}
	s := p.client.Messages.NewStreaming(ctx, p.params(c.Request, c.Names, origin))
	defer func() { _ = s.Close() }() // the reply is complete, or has failed already
	err := driver.Receive(ctx, func() (event sdk.MessageStreamEventUnion, err error) {
		switch {
		case s.Next():
			return s.Current(), nil
		case s.Err() != nil:
			return event, s.Err()
		}
		return event, io.EOF
	}, r.take)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return &driver.Unreadable{Err: syntax}
	case err != nil:
		return err
	}
	return r.finish(&p.endpoint)
}

// said returns what Anthropic says in an error, or nil.
func said(_ *driver.Exchange, err error) *driver.Said {
	var (
		api *sdk.Error
		own *driver.Said
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &api):
		return readError(api.RawJSON())
	}
	return nil
}

// readError reads an error, which is the body of a response or an event.
func readError(raw string) *driver.Said {
	var in struct {
		Error struct {
			Type    string `json:"type"`
			Status  string `json:"status"` // of Google's errors
			Message string `json:"message"`
		} `json:"error"`
		Message string `json:"message"` // of Amazon's errors
	}
	if json.Unmarshal([]byte(raw), &in) != nil || in.Error.Message == "" && in.Message == "" {
		return &driver.Said{Message: raw}
	}
	kind := cmp.Or(in.Error.Type, in.Error.Status)
	return &driver.Said{Status: statuses[kind], Kind: kind, Message: cmp.Or(in.Error.Message, in.Message)}
}

// statuses are those of errors in the middle of a stream.
var statuses = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,

	// Amazon's:
	"validationException": 400, "throttlingException": 429, "modelStreamErrorException": 424, "internalServerException": 500,
	"serviceUnavailableException": 503, "modelTimeoutException": 408,
}
