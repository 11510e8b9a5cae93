package google

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	sdk "google.golang.org/genai"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
	"github.com/threadmill/threadmill/llm/internal/gcp"
)

const officialURL = "https://generativelanguage.googleapis.com"

// Config configures the driver. Only APIKey is required, and only for Google itself; for Vertex AI, only
// Vertex is.
type Config struct {
	// APIKey is sent in the header X-Goog-Api-Key. Errors never contain it.
	APIKey string

	// Vertex calls the models on Vertex AI.
	Vertex *Vertex

	// BaseURL is the address of the server, without the version. Default:
	// https://generativelanguage.googleapis.com, or that of the region of Vertex.
	BaseURL string

	// Name is the name of the provider in errors. Default "google".
	Name string

	// HTTPClient sends the requests. Default: a separate client without a timeout.
	HTTPClient *http.Client

	Timeouts llm.Timeouts
}

// Vertex is where models run on Google's Vertex AI. Requests have Google's application default
// credentials: of the file that GOOGLE_APPLICATION_CREDENTIALS names, of gcloud, or of the machine.
type Vertex struct {
	// Project is the id of the Google Cloud project, and Region such as us-east5 or global.
	Project string
	Region  string
}

// Provider calls the models of one server. It is safe for concurrent use.
type Provider struct {
	endpoint driver.Endpoint
	client   *sdk.Client
}

var _ llm.Provider = (*Provider)(nil)

// New returns a driver. It does not connect to the server.
func New(config Config) (*Provider, error) {
	p := &Provider{endpoint: driver.Endpoint{
		Name: config.Name, APIKey: config.APIKey, BaseURL: config.BaseURL, HTTPClient: config.HTTPClient, Timeouts: config.Timeouts,
	}}
	var err error
	if config.Vertex != nil {
		err = p.onVertex(gcp.Place(*config.Vertex))
	} else if err = p.endpoint.Complete("google", officialURL); err == nil {
		err = p.connect(sdk.ClientConfig{
			APIKey:  cmp.Or(config.APIKey, "none"), // the SDK requires one, and would look for it in the environment
			Backend: sdk.BackendGeminiAPI, HTTPClient: p.endpoint.Client(body),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("google: %w", err)
	}
	return p, nil
}

func (p *Provider) onVertex(at gcp.Place) error {
	if p.endpoint.APIKey != "" {
		return errors.New("APIKey: must not be set with Vertex, which takes Google's application default credentials")
	}
	if err := at.Validate(); err != nil {
		return fmt.Errorf("Vertex.%w", err)
	}
	p.endpoint.Account = at.Project
	if err := p.endpoint.Complete("google", at.URL()); err != nil {
		return err
	}
	credentials, err := gcp.Detect()
	if err != nil {
		return err
	}
	client := p.endpoint.Client(body)
	client.Transport = &gcp.Transport{Base: client.Transport, Credentials: credentials}
	return p.connect(sdk.ClientConfig{Backend: sdk.BackendVertexAI, Project: at.Project, Location: at.Region, HTTPClient: client})
}

func (p *Provider) connect(config sdk.ClientConfig) (err error) {
	config.HTTPOptions.BaseURL = p.endpoint.BaseURL
	p.client, err = sdk.NewClient(context.Background(), &config)
	return err
}

// Generate calls the model. It always streams the reply.
func (p *Provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return p.endpoint.Generate(ctx, req, onDelta, p.send, said)
}

func (p *Provider) send(ctx context.Context, c *driver.Call) error {
	origin := p.endpoint.Origin("google", c.Request.Model)
	contents, config := request(c.Request, c.Names, origin)
	q := &quiet{}
	r := &reply{Reply: c.Reply, origin: origin, body: q, continues: driver.Continues(c.Request.Messages)}
	next, stop := iter.Pull2(p.client.Models.GenerateContentStream(context.WithValue(ctx, quietKey{}, q), c.Request.Model, contents, config))
	defer stop()
	err := driver.Receive(ctx, func() (*sdk.GenerateContentResponse, error) {
		resp, err := chunk(next)
		if q.err != nil { // the last chunk is incomplete
			err = q.err
		}
		return resp, err
	}, func(resp *sdk.GenerateContentResponse) error { return r.take(resp, &p.endpoint) })
	r.Tier = cmp.Or(c.Exchange.Header.Get("X-Gemini-Service-Tier"), r.Tier)
	if err != nil {
		return readable(err)
	}
	return r.finish()
}

// chunk returns the next chunk, or [io.EOF]. The SDK panics at chunks with fields of another type.
func chunk(next func() (*sdk.GenerateContentResponse, error, bool)) (resp *sdk.GenerateContentResponse, err error) {
	defer func() {
		if recover() != nil {
			err = errForm
		}
	}()
	resp, err, ok := next()
	if !ok {
		return nil, io.EOF
	}
	return resp, err
}

var errForm = &driver.Unreadable{Err: errors.New("a chunk does not have the form of the protocol")}

// readable returns err, or that the reply is not readable.
func readable(err error) error {
	var (
		syntax *json.SyntaxError
		form   *json.UnmarshalTypeError
	)
	if errors.As(err, &syntax) || errors.As(err, &form) {
		return errForm
	}
	return err
}

// said returns what Google says in an error, or nil.
func said(_ *driver.Exchange, err error) *driver.Said {
	var (
		api sdk.APIError
		own *driver.Said
	)
	if errors.As(err, &own) {
		return own
	}
	if !errors.As(err, &api) {
		return nil
	}
	return &driver.Said{Status: api.Code, Kind: api.Status, Message: api.Message, RetryAfter: retryDelay(api.Details)}
}

// retryDelay returns the delay before a retry in the details of an error. 0 = none.
func retryDelay(details []map[string]any) time.Duration {
	for _, d := range details {
		if kind, _ := d["@type"].(string); !strings.HasSuffix(kind, "google.rpc.RetryInfo") {
			continue
		}
		text, _ := d["retryDelay"].(string)
		if delay, err := time.ParseDuration(text); err == nil && delay > 0 {
			return delay
		}
	}
	return 0
}
