// Package bedrock calls Anthropic's models on Amazon Bedrock.
//
//	model, err := bedrock.New(ctx, bedrock.Config{Region: "us-east-1"})
//
// It is a package of its own because it needs the AWS SDK.
package bedrock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/bedrock"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// Config configures the driver. Only Region is required.
type Config struct {
	// Region is the AWS region, such as us-east-1.
	Region string

	// Config are the settings of the driver. BaseURL is by default that of Bedrock in the region. APIKey
	// and Platform must not be set.
	anthropic.Config
}

// region is the form of AWS regions.
var region = regexp.MustCompile(`^[a-z]{2}(-[a-z]+){1,3}-[0-9]{1,2}$`)

// findTime is the time limit for finding credentials.
const findTime = 20 * time.Second

// New returns a driver. It finds the credentials as all programs for AWS do: AWS_BEARER_TOKEN_BEDROCK,
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the shared files with AWS_PROFILE, or the role of the
// machine. ctx limits the time for that.
func New(ctx context.Context, c Config) (*anthropic.Provider, error) {
	switch {
	case c.Region == "":
		return nil, errors.New("bedrock: Region: is required, such as us-east-1")
	case !region.MatchString(c.Region):
		return nil, fmt.Errorf("bedrock: Region: %q is none: write one such as us-east-1", c.Region)
	}
	found, err := find(ctx, c.Region)
	if err != nil {
		return nil, fmt.Errorf("bedrock: no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or "+
			"AWS_BEARER_TOKEN_BEDROCK: %w", err)
	}
	c.Platform = &anthropic.Platform{
		BaseURL: "https://bedrock-runtime." + c.Region + ".amazonaws.com", Account: "bedrock",
		Options: []option.RequestOption{sdk.WithConfig(found)},
	}
	return anthropic.New(c.Config)
}

// find returns the configuration of AWS, with credentials.
func find(ctx context.Context, region string) (aws.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	found, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil || os.Getenv("AWS_BEARER_TOKEN_BEDROCK") != "" { // the SDK sends it instead
		return found, err
	}
	if _, err := found.Credentials.Retrieve(ctx); err != nil {
		return found, err
	}
	found.Credentials = watched{found.Credentials}
	return found, nil
}

// watched are credentials that say when there are none.
type watched struct{ aws.CredentialsProvider }

func (w watched) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := w.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return c, &driver.CredentialsError{Err: err, Transient: true}
	}
	return c, nil
}
