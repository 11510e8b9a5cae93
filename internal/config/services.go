package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// service is what is particular to a type of providers.
type service struct {
	kind string

	// key and base are the variables of the provider's own programs. Without a key, the credentials are
	// those of a cloud.
	key, base string

	// official is the address of the provider itself, and model one of its models.
	official, model string

	// cloud means that there is no provider of this type without an entry in the file.
	cloud bool

	// settings are the further fields of entries of this type.
	settings []setting
}

// setting is a field of particular types of providers.
type setting struct {
	field string

	// variables apply if the field is missing, the first that is set.
	variables []string

	// example is a value. A field that is not optional must have one.
	example  string
	optional bool

	form *regexp.Regexp
}

// The settings of the types.
var (
	summarySetting = setting{field: "reasoningSummary", example: "auto, concise, detailed or off", optional: true, form: regexp.MustCompile(`^(auto|concise|detailed|off)$`)}

	dialectSetting = setting{field: "dialect", example: "compatible, mistral or openai", optional: true, form: regexp.MustCompile(`^(compatible|mistral|openai)$`)}

	versionSetting    = setting{field: "apiVersion", variables: []string{"OPENAI_API_VERSION"}, example: "2024-10-21", form: apiVersion}
	responsesVersion  = setting{field: "apiVersion", variables: []string{"OPENAI_API_VERSION"}, example: "2025-04-01-preview", form: apiVersion}
	deploymentSetting = setting{field: "deployment", example: "my-deployment", optional: true, form: regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)}

	awsRegion = setting{
		field: "region", variables: []string{"AWS_REGION", "AWS_DEFAULT_REGION"}, example: "us-east-1",
		form: regexp.MustCompile(`^[a-z]{2}(-[a-z]+){1,3}-[0-9]{1,2}$`),
	}
	googleRegion = setting{
		field: "region", variables: []string{"GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"}, example: "us-east5",
		form: regexp.MustCompile(`^(global|us|eu|[a-z]+-[a-z]+[0-9]{1,2})$`),
	}
	googleProject = setting{
		field: "project", variables: []string{"GOOGLE_CLOUD_PROJECT"}, example: "my-project-123",
		form: regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`),
	}

	apiVersion = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?|v1|preview|latest)$`)
)

// The variables of Azure's own programs.
const (
	azureKey  = "AZURE_OPENAI_API_KEY"
	azureBase = "AZURE_OPENAI_ENDPOINT"
)

// services are the types of providers that are called over HTTP.
var services = []service{
	{kind: OpenAI, key: EnvAPIKey, base: EnvBaseURL, official: "https://api.openai.com/", model: DefaultModel, settings: []setting{dialectSetting}},
	{kind: OpenAIResponses, key: EnvAPIKey, base: EnvBaseURL, official: "https://api.openai.com/", model: DefaultModel, settings: []setting{summarySetting}},
	{kind: OpenAIAzure, key: azureKey, base: azureBase, model: DefaultModel, cloud: true, settings: []setting{versionSetting, deploymentSetting}},
	{
		kind: OpenAIResponsesAzure, key: azureKey, base: azureBase, model: DefaultModel, cloud: true,
		settings: []setting{responsesVersion, deploymentSetting, summarySetting},
	},
	{kind: Anthropic, key: "ANTHROPIC_API_KEY", base: "ANTHROPIC_BASE_URL", official: "https://api.anthropic.com", model: "claude-sonnet-5-5"},
	{kind: AnthropicBedrock, model: "anthropic.claude-sonnet-5-5", cloud: true, settings: []setting{awsRegion}},
	{kind: AnthropicVertex, model: "claude-sonnet-5-5", cloud: true, settings: []setting{googleProject, googleRegion}},
	{kind: Google, key: "GEMINI_API_KEY", base: "GOOGLE_GEMINI_BASE_URL", official: "https://generativelanguage.googleapis.com", model: "gemini-3.8-flash"},
	{kind: GoogleVertex, model: "gemini-3.8-flash", cloud: true, settings: []setting{googleProject, googleRegion}},
}

// serviceOf returns the service of a type. The zero service is that of the demo model.
func serviceOf(kind string) service {
	for _, s := range services {
		if s.kind == kind {
			return s
		}
	}
	return service{}
}

// types are all types of providers.
func types() []string {
	out := make([]string, 0, len(services)+1)
	for _, s := range services {
		out = append(out, s.kind)
	}
	return append(out, Demo, Fallback)
}

// takes are the types that have a field.
func takes(field string) string {
	var kinds []string
	for _, s := range services {
		if slices.ContainsFunc(s.settings, func(one setting) bool { return one.field == field }) {
			kinds = append(kinds, s.kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// place sets the settings of a provider's type, from the file or the environment.
func (m *models) place(p *provider, path string, place Place) {
	p.Place = place
	if p.Type == "" {
		return
	}
	s := serviceOf(p.Type)
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"region", &p.Region},
		{"project", &p.Project},
		{"apiVersion", &p.APIVersion},
		{"deployment", &p.Deployment},
		{"reasoningSummary", &p.ReasoningSummary},
		{"dialect", &p.Dialect},
	} {
		i := slices.IndexFunc(s.settings, func(one setting) bool { return one.field == f.name })
		at := path + "." + f.name
		switch {
		case i >= 0:
			m.setting(p, path, s.settings[i], f.value)
		case m.doc.has(at):
			m.doc.keyErrorf(at, KindInvalid, "a provider of type %s has no %s: remove the field (it is one of %s)", p.Type, f.name, takes(f.name))
		}
	}
	switch {
	case s.key == azureKey:
		m.azure(p, path)
	case s.cloud && m.doc.has(path+".apiKeyEnv"):
		m.doc.keyErrorf(path+".apiKeyEnv", KindInvalid, "a provider of type %s takes the credentials of the cloud, as its own programs do: remove the field", p.Type)
	}
}

// setting validates a setting of the file, or sets it to that of the environment.
func (m *models) setting(p *provider, path string, s setting, value *string) {
	at := path + "." + s.field
	if m.doc.has(at) {
		if *value != "" && !s.form.MatchString(*value) {
			m.doc.fieldErrorf(at, KindInvalid, "%q is no %s of type %s: write %s", *value, s.field, p.Type, such(s))
		}
		return
	}
	for _, name := range s.variables {
		if *value = strings.TrimSpace(m.doc.getenv(name)); *value == "" {
			continue
		}
		if !s.form.MatchString(*value) {
			m.doc.fieldErrorf(path, KindInvalid, "the environment variable %s is %q, which is no %s of type %s: set it to %s, or add %s", name, *value, s.field, p.Type, such(s), s.field)
		}
		return
	}
	if !s.optional {
		p.lacks(at, "a provider of type %s needs %s: add %s: %s, or set %s", p.Type, s.field, s.field, s.example, s.variables[0])
	}
}

func such(s setting) string {
	if strings.Contains(s.example, " ") {
		return s.example
	}
	return "one such as " + s.example
}

// lacks records that a field is missing, which matters only if the provider is used.
func (p *provider) lacks(path, format string, args ...any) {
	p.absent = append(p.absent, absent{path: path, problem: fmt.Sprintf(format, args...)})
}

// azure checks the address and the key of a resource, which has no default.
func (m *models) azure(p *provider, path string) {
	switch {
	case p.implicit && p.BaseURL == "":
		p.lacks(path+".baseURL", "the environment variable %s is not set, and the provider takes its address from there: set it, or add baseURL and apiKeyEnv", azureBase)
	case p.implicit && p.APIKey == "":
		p.lacks(path+".apiKeyEnv", "the environment variable %s is not set, and the provider takes its key from there: set it, or add baseURL and apiKeyEnv", azureKey)
	case !p.implicit && !m.doc.has(path+".baseURL") && !m.doc.has(path+".baseURLEnv"):
		p.lacks(path+".baseURL", "a provider of type %s needs the address of its resource: add baseURL: https://my-resource.openai.azure.com", p.Type)
	case !p.implicit && m.doc.has(path+".baseURLEnv") && !m.doc.has(path+".apiKeyEnv"):
		p.lacks(path+".apiKeyEnv", "a provider of type %s needs a key: add apiKeyEnv: %s", p.Type, azureKey)
	}
}
