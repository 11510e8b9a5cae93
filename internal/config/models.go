package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/internal/names/near"
	"github.com/threadmill/threadmill/llm"
)

// Environment variables that apply without being named in the file.
const (
	EnvAPIKey  = "OPENAI_API_KEY"
	EnvBaseURL = "OPENAI_BASE_URL"
	EnvModel   = "THREADMILL_MODEL"
)

// Only capitals are valid, so that a key in this place is not taken for a name.
var (
	variable     = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	anyVariable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	providerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

// models are the model providers of a file.
type models struct {
	doc    *document
	byKey  map[string]*provider
	chains map[string]llm.Fallback
}

type provider struct {
	Provider
	declared bool
	used     bool

	// program means that the program declares it.
	program bool

	// implicit means that the key and the address come from the usual variables.
	implicit bool

	// keyName is the variable with the key.
	keyName string

	// absent are unset variables. They are an error only if an agent uses the provider.
	absent []absent
}

// absent is an unset variable, and the field that names it, if there is one. With a problem, it is a
// field that is missing.
type absent struct {
	path    string
	name    string
	problem string
}

// builtIn are the providers that need no declaration.
func (d *document) builtIn() *models {
	m := &models{doc: d, chains: map[string]llm.Fallback{}, byKey: map[string]*provider{Demo: {Provider: Provider{Name: Demo, Type: Demo}}}}
	for _, s := range services {
		if s.cloud {
			continue
		}
		p := &provider{Provider: Provider{Name: s.kind, Type: s.kind}}
		p.fromEnvironment(d)
		m.byKey[s.kind] = p
	}
	for _, name := range d.declared.Models {
		m.byKey[name] = &provider{Provider: Provider{Name: name}, program: true}
	}
	return m
}

type providerType string

type providerEntry struct {
	Type       providerType
	APIKeyEnv  string
	BaseURL    string
	BaseURLEnv string
	Retry      llm.Retry
	Limits     llm.Limits
	llm.Fallback
	Place
}

// chainFields are the fields of a fallback chain, and providerFields those of a provider.
var (
	chainFields    = []string{"chain", "on", "firstToken", "returnAfter"}
	providerFields = []string{"apiKeyEnv", "baseURL", "baseURLEnv", "retry", "limits", "region", "project", "apiVersion", "deployment", "reasoningSummary", "dialect"}
)

// forbid reports fields that an entry of another type has.
func (m *models) forbid(path, problem string, fields []string) {
	for _, field := range fields {
		if m.doc.has(path + "." + field) {
			m.doc.keyErrorf(path+"."+field, KindInvalid, "%s", problem)
		}
	}
}

// addChain adds a fallback chain. Its models are checked once all providers are known.
func (m *models) addChain(name string, e providerEntry) {
	path := "models." + name
	m.forbid(path, "is a field of providers: a fallback chain has chain, on, firstToken and returnAfter", providerFields)
	if _, builtIn := m.byKey[name]; builtIn {
		m.doc.keyErrorf(path, KindInvalid, "a provider has this name: give the chain another one")
		return
	}
	m.chains[name] = e.Fallback
}

// useChains checks the models of all chains.
func (m *models) useChains() {
	for _, name := range slices.Sorted(maps.Keys(m.chains)) {
		path, f := "models."+name, m.chains[name]
		nested := false
		for i, model := range f.Chain {
			at := fmt.Sprintf("%s.chain[%d]", path, i)
			if _, chain := m.chains[model]; chain {
				m.doc.fieldErrorf(at, KindInvalid, "%q is a chain itself, and a chain contains no other chain: write its models", model)
				nested = true
				continue
			}
			m.use(at, model)
		}
		if err := f.Validate(); err != nil && !nested {
			field, problem := fieldOf(err)
			m.doc.fieldErrorf(path+"."+field, KindInvalid, "%s", problem)
		}
	}
}

// fieldOf splits an error that begins with the name of a Go field.
func fieldOf(err error) (field, problem string) {
	text := err.Error()
	end := strings.IndexAny(text, ": ")
	field, problem = text[:end], strings.TrimLeft(text[end:], ": ")
	return strings.ToLower(field[:1]) + field[1:], problem
}

func (m *models) add(name string, e providerEntry) {
	path := "models." + name
	if !providerName.MatchString(name) {
		m.doc.keyErrorf(path, KindInvalid, "use 1 to 64 letters, digits, -, _ and ., beginning with a letter or digit")
		return
	}
	if p := m.byKey[name]; p != nil && p.program || slices.Contains(m.doc.declared.Fallbacks, name) {
		m.doc.keyErrorf(path, KindDuplicate, "the program itself has a model provider or a chain of this name: choose another name")
		return
	}
	if e.Type == Fallback {
		m.addChain(name, e)
		return
	}
	m.forbid(path, "is a field of a chain: write type: fallback, or remove it", chainFields)
	p := &provider{Provider: Provider{Name: name, Type: string(e.Type), Retry: e.Retry, Limits: e.Limits}, declared: true}
	m.byKey[name] = p
	literal, env, key := path+".baseURL", path+".baseURLEnv", path+".apiKeyEnv"
	if d := e.Retry.WithDefaults(); e.Retry.MaxInterval > 0 && e.Retry.MaxInterval < d.InitialInterval {
		m.doc.fieldErrorf(path+".retry.maxInterval", KindInvalid, "is %s, must be at least initialInterval, %s", short(e.Retry.MaxInterval), short(d.InitialInterval))
	}
	switch {
	case p.Type == Demo:
		for _, field := range []string{key, literal, env} {
			if m.doc.has(field) {
				m.doc.keyErrorf(field, KindInvalid, "a provider of type demo takes nothing else: remove the field")
			}
		}
		m.place(p, path, e.Place)
		return
	case m.doc.has(literal) && m.doc.has(env):
		m.doc.keyErrorf(env, KindInvalid, "baseURL is set as well: keep one of them")
	case m.doc.has(literal):
		p.BaseURL = strings.TrimRight(e.BaseURL, "/")
		if s := serviceOf(p.Type); s.key != "" && strings.HasPrefix(p.BaseURL, s.official) && !m.doc.has(key) {
			m.doc.fieldErrorf(literal, KindMissing, "the provider itself needs a key: add apiKeyEnv: %s", s.key)
		}
	case e.BaseURLEnv != "":
		p.BaseURL = strings.TrimRight(p.variable(m.doc, env, e.BaseURLEnv), "/")
		if problem := urlProblem(p.BaseURL); problem != "" && p.BaseURL != "" {
			m.doc.fieldErrorf(env, KindInvalid, "%s %s", e.BaseURLEnv, problem)
		}
	case !m.doc.has(key) && p.Type != "":
		p.fromEnvironment(m.doc)
	}
	if e.APIKeyEnv != "" {
		p.APIKey, p.keyName = Secret(p.variable(m.doc, key, e.APIKeyEnv)), e.APIKeyEnv
	}
	m.place(p, path, e.Place)
}

// secretVariable returns the field that names the variable, for a part of the file in which a
// misspelt field may contain a secret; "" for other parts.
func secretVariable(path string) string {
	switch part, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), "."); part {
	case "models":
		return "apiKeyEnv"
	case "webhooks", "apiKeys":
		return "secretEnv"
	case "mcp":
		return "headersEnv"
	}
	return ""
}

var secretNames = map[string]bool{"apikey": true, "secret": true, "secrets": true}

// mcpSecrets are further names of fields that would hold a secret of an MCP server.
var mcpSecrets = map[string]bool{"headers": true, "authorization": true, "token": true, "password": true}

// hide hides a value from excerpts if it may be a secret, and reports whether it may be.
func (d *document) hide(n ast.Node, path string) bool {
	if secretVariable(path) == "" {
		return false
	}
	d.conceal(n)
	return true
}

// conceal hides a value from excerpts, unless it is a word that cannot be a secret.
func (d *document) conceal(n ast.Node) { ast.Walk(hider{d}, d.resolve(n)) }

type hider struct{ doc *document }

// Visit implements [ast.Visitor].
func (h hider) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		if s := n.GetToken().Value; s != "" && !slices.Contains(types(), s) && !variable.MatchString(s) {
			h.doc.secrets = append(h.doc.secrets, s)
		}
	}
	return h
}

// variable returns the value of the variable that a field names.
func (p *provider) variable(d *document, path, name string) string {
	s := strings.TrimSpace(d.getenv(name))
	if s == "" {
		p.absent = append(p.absent, absent{path: path, name: name})
	}
	return s
}

// fromEnvironment sets the key and the address of a provider that declares neither, from the
// variables of the provider's own programs. A key is sent to an address in the file only if the file says
// so.
func (p *provider) fromEnvironment(d *document) {
	p.implicit = true
	s := serviceOf(p.Type)
	if s.key == "" {
		return
	}
	p.APIKey, p.keyName = Secret(strings.TrimSpace(d.getenv(s.key))), s.key
	p.BaseURL = strings.TrimSpace(d.getenv(s.base))
	if p.APIKey == "" && p.BaseURL == "" && !s.cloud {
		p.absent = append(p.absent, absent{name: s.key})
	}
}

// urlProblem returns the problem without the address, which may contain a password.
func urlProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "must be a web address, such as https://api.openai.com/v1 or http://127.0.0.1:11434/v1"
	case u.User != nil:
		return "must not hold a user or password: use apiKeyEnv"
	case u.RawQuery != "" || u.Fragment != "":
		return "must end with the path: remove the part from ? or # on"
	}
	return ""
}

// use records that the field at path names this model.
func (m *models) use(path, s string) {
	if s == "" {
		return
	}
	fail := func(kind Kind, format string, args ...any) { m.doc.fieldErrorf(path, kind, format, args...) }
	name, model, ok := strings.Cut(s, "/")
	p, known := m.byKey[name]
	switch {
	case !ok && m.isChain(s):
	case !ok && known:
		fail(KindInvalid, "%q is only the provider: add the model, as in %s/%s", s, s, example(p))
	case !ok && len(m.chains) > 0:
		fail(KindReference, "unknown fallback chain %q; %s; or write it as provider/model, such as openai/%s", s, near.Suggest(s, slices.Collect(maps.Keys(m.chains))), s)
	case !ok:
		fail(KindInvalid, "%q does not say the provider: write it as provider/model, such as openai/%s", s, s)
	case model == "":
		fail(KindInvalid, "%q does not say the model: write it as provider/model, such as openai/gpt-5.6-luna", s)
	case !known:
		fail(KindReference, "unknown provider %q; %s (providers are declared under models)", name, near.Suggest(name, m.names()))
	default:
		m.mark(p, path)
	}
}

// useOne is use for a field that cannot name a fallback chain.
func (m *models) useOne(path, s string) {
	if m.isChain(s) {
		m.doc.fieldErrorf(path, KindInvalid, "%q is a fallback chain: name one model, as provider/model", s)
		return
	}
	m.use(path, s)
}

// embedding are the types of providers that make vectors.
var embedding = []string{OpenAI, OpenAIAzure, OpenAIResponses, OpenAIResponsesAzure, Google, GoogleVertex}

// useEmbedder is use for the model of an embedder.
func (m *models) useEmbedder(path, s string) {
	if m.isChain(s) {
		m.doc.fieldErrorf(path, KindInvalid, "%q is a fallback chain: vectors of different models cannot be compared, so name one model", s)
		return
	}
	m.use(path, s)
	name, _, _ := strings.Cut(s, "/")
	if p, known := m.byKey[name]; known && !p.program && !slices.Contains(embedding, p.Type) {
		m.doc.fieldErrorf(path, KindInvalid, "the provider %q, of type %s, makes no vectors: name a model of OpenAI, a compatible server or Google", name, p.Type)
	}
}

func (m *models) isChain(name string) bool {
	_, ok := m.chains[name]
	return ok || slices.Contains(m.doc.declared.Fallbacks, name)
}

func example(p *provider) string {
	return cmp.Or(serviceOf(p.Type).model, Demo)
}

// mark reports what a provider lacks at its first use.
func (m *models) mark(p *provider, path string) {
	if p.used {
		return
	}
	p.used = true
	for _, a := range p.absent {
		if a.problem != "" {
			m.doc.fieldErrorf(a.path, KindMissing, "%s, and an agent uses this provider", a.problem)
			continue
		}
		if p.implicit {
			m.doc.fieldErrorf(path, KindUnset, "the environment variable %s is not set, and provider %q takes its key from there: "+
				"set it, or set %s to use another address, or use demo/demo to try without a model", a.name, p.Name, serviceOf(p.Type).base)
			continue
		}
		m.doc.fieldErrorf(a.path, KindUnset, "the environment variable %s is not set, and an agent or a chain uses this provider: set it before starting", a.name)
	}
	if p.implicit && p.BaseURL != "" {
		if problem := urlProblem(p.BaseURL); problem != "" {
			m.doc.fieldErrorf(path, KindInvalid, "%s %s", serviceOf(p.Type).base, problem)
		}
	}
}

func (m *models) names() []string {
	names := make([]string, 0, len(m.byKey))
	for name := range m.byKey {
		names = append(names, name)
	}
	return names
}

// result returns the providers, and the variables with their keys.
func (m *models) result() (list []Provider, keys map[string]string) {
	keys = map[string]string{}
	for _, p := range m.byKey {
		if (p.declared || p.used) && !p.program && len(p.absent) == 0 {
			list = append(list, p.Provider)
			if p.APIKey != "" {
				keys[p.Name] = p.keyName
			}
		}
	}
	slices.SortFunc(list, func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
	return list, keys
}
