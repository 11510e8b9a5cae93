package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	sdk "github.com/sashabaranov/go-openai"
)

// Azure are the settings of a resource of Azure OpenAI.
type Azure struct {
	// APIVersion is the version of the API, such as 2024-10-21. It is required. The Responses API needs
	// 2025-04-01-preview or later.
	APIVersion string

	// Deployment is the deployment that all calls go to. Default: the one that has the name of the model.
	Deployment string
}

var (
	azureVersion    = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?|v1|preview|latest)$`)
	azureDeployment = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// azureConfig validates the settings, whose errors begin with the name of a field.
func (p *Provider) azureConfig() (sdk.ClientConfig, error) {
	const example = "https://my-resource.openai.azure.com"
	var none sdk.ClientConfig
	switch {
	case p.endpoint.BaseURL == "":
		return none, errors.New("BaseURL: is required for Azure: the address of the resource, such as " + example)
	case p.endpoint.APIKey == "":
		return none, errors.New("APIKey: is required for Azure")
	case p.azure.APIVersion == "":
		return none, errors.New("Azure.APIVersion: is required, such as 2024-10-21")
	case !azureVersion.MatchString(p.azure.APIVersion):
		return none, fmt.Errorf("Azure.APIVersion: %q is none: write one such as 2024-10-21 or 2025-04-01-preview", p.azure.APIVersion)
	case p.azure.Deployment != "" && !azureDeployment.MatchString(p.azure.Deployment):
		return none, fmt.Errorf("Azure.Deployment: %q is not the name of a deployment", p.azure.Deployment)
	}
	if err := p.endpoint.Complete("openai", example); err != nil {
		return none, err
	}
	if u, err := url.Parse(p.endpoint.BaseURL); err != nil || strings.Contains(u.Path, "/openai") {
		return none, errors.New("BaseURL: must be the address of the Azure resource, without /openai and what follows: " + example)
	}
	c := sdk.DefaultAzureConfig(p.endpoint.APIKey, p.endpoint.BaseURL)
	c.APIVersion = p.azure.APIVersion
	c.AzureModelMapperFunc = func(model string) string { return url.PathEscape(p.deployed(model)) }
	return c, nil
}

// deployed returns the deployment of a model, or at other servers the model itself.
func (p *Provider) deployed(model string) string {
	if p.azure == nil {
		return model
	}
	return cmp.Or(p.azure.Deployment, model)
}
