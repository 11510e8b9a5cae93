// Package gcp has what the drivers of models on Google's Vertex AI have in common.
package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"github.com/threadmill/threadmill/llm/internal/driver"
)

// Place is where models run.
type Place struct{ Project, Region string }

// The forms of regions and projects. The global endpoint and those of continents are regions too.
var (
	region  = regexp.MustCompile(`^(global|us|eu|[a-z]+-[a-z]+[0-9]{1,2})$`)
	project = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
)

// Validate reports the first invalid field.
func (p Place) Validate() error {
	switch {
	case p.Region == "":
		return errors.New("Region: is required, such as us-east5 or global") //nolint:staticcheck // the name of the field
	case !region.MatchString(p.Region):
		return fmt.Errorf("Region: %q is none: write one such as us-east5 or global", p.Region) //nolint:staticcheck // the name of the field
	case p.Project == "":
		return errors.New("Project: is required, the id of a Google Cloud project") //nolint:staticcheck // the name of the field
	case !project.MatchString(p.Project):
		return fmt.Errorf("Project: %q is not the id of a Google Cloud project, such as my-project-123", p.Project) //nolint:staticcheck // the name of the field
	}
	return nil
}

// URL returns the address of Vertex AI for the region.
func (p Place) URL() string {
	switch p.Region {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + p.Region + ".rep.googleapis.com"
	}
	return "https://" + p.Region + "-aiplatform.googleapis.com"
}

// Detect returns Google's application default credentials: of the file that
// GOOGLE_APPLICATION_CREDENTIALS names, of gcloud, or of the machine.
func Detect() (*auth.Credentials, error) {
	c, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}})
	if err != nil {
		return nil, fmt.Errorf("no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS to their file, or log in with gcloud auth application-default login: %w", err)
	}
	return c, nil
}

// tokenTime is the time limit for a new token.
const tokenTime = 30 * time.Second

// Token returns a token, or a [*driver.CredentialsError].
func Token(ctx context.Context, c *auth.Credentials) (*auth.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	token, err := c.Token(ctx)
	if err == nil {
		return token, nil
	}
	var refused *auth.Error
	return nil, &driver.CredentialsError{Err: err, Transient: !errors.As(err, &refused) || refused.Temporary()}
}

// Transport adds a token to requests.
type Transport struct {
	Base        http.RoundTripper
	Credentials *auth.Credentials
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := Token(req.Context(), t.Credentials)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token.Value)
	return t.Base.RoundTrip(req)
}
