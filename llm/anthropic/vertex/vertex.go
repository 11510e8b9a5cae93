// Package vertex calls Anthropic's models on Google's Vertex AI.
//
//	model, err := vertex.New(vertex.Config{Project: "my-project-123", Region: "us-east5"})
//
// It is a package of its own because it needs Google's SDK.
package vertex

import (
	"context"
	"fmt"

	"cloud.google.com/go/auth"
	"github.com/anthropics/anthropic-sdk-go/option"
	sdk "github.com/anthropics/anthropic-sdk-go/vertex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/internal/gcp"
)

// Config configures the driver. Only Project and Region are required.
type Config struct {
	// Project is the id of the Google Cloud project, and Region such as us-east5 or global.
	Project string
	Region  string

	// Config are the settings of the driver. BaseURL is by default that of Vertex AI in the region. APIKey
	// and Platform must not be set.
	anthropic.Config
}

// New returns a driver, with Google's application default credentials: of the file that
// GOOGLE_APPLICATION_CREDENTIALS names, of gcloud, or of the machine.
func New(c Config) (*anthropic.Provider, error) {
	at := gcp.Place{Project: c.Project, Region: c.Region}
	if err := at.Validate(); err != nil {
		return nil, fmt.Errorf("vertex: %w", err)
	}
	credentials, err := gcp.Detect()
	if err != nil {
		return nil, fmt.Errorf("vertex: %w", err)
	}
	c.Platform = &anthropic.Platform{
		BaseURL: at.URL(), Account: c.Project,
		Options: []option.RequestOption{
			sdk.WithCredentials(context.Background(), c.Region, c.Project, &google.Credentials{TokenSource: tokens{credentials}}),
		},
	}
	return anthropic.New(c.Config)
}

// tokens are the tokens of credentials, for the SDK.
type tokens struct{ credentials *auth.Credentials }

func (t tokens) Token() (*oauth2.Token, error) {
	token, err := gcp.Token(context.Background(), t.credentials)
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: token.Value, TokenType: "Bearer", Expiry: token.Expiry}, nil
}
