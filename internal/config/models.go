package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/llm"
)

// Variables that are read without being named in the file.
const (
	EnvAPIKey  = "OPENAI_API_KEY"
	EnvBaseURL = "OPENAI_BASE_URL"
	EnvModel   = "THREADMILL_MODEL"
)

const official = "https://api.openai.com/"

// Only capitals, so that a key that stands here by mistake is not taken for a name.
var (
	variable     = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	anyVariable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	providerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

// models are the providers of a file.
type models struct {
	doc   *document
	byKey map[string]*provider
}

type provider struct {
	Provider
	declared bool
	used     bool

	// implicit says that it has its key and address from the usual variables.
	implicit bool

	// absent are the variables that are not set. That matters only once an agent uses
	// the provider.
	absent []absent
}

// absent is a variable that is not set, and the field that names it, if one does.
type absent struct {
	field value
	name  string
}

// builtIn are the providers that need no entry.
func (d *document) builtIn() *models {
	openai := &provider{Provider: Provider{Name: OpenAI, Type: OpenAI}}
	openai.fromEnvironment(d)
	return &models{doc: d, byKey: map[string]*provider{
		OpenAI: openai,
		Demo:   {Provider: Provider{Name: Demo, Type: Demo}},
	}}
}

func (m *models) read(v value) {
	if v.kind() == "text" {
		v.doc.hide(v.node)
	}
	for _, f := range v.fields() {
		if !providerName.MatchString(f.key) {
			f.failKey("use 1 to 64 letters, digits, -, _ and ., beginning with a letter or digit")
			continue
		}
		m.byKey[f.key] = f.provider()
	}
}

var providerFields = []string{"type", "apiKeyEnv", "baseURL", "baseURLEnv", "retry"}

func (f field) provider() *provider {
	p := &provider{Provider: Provider{Name: f.key}, declared: true}
	fields := f.providerFields()
	given := map[string]field{}
	for _, f := range fields {
		given[f.key] = f
	}
	if t, ok := given["type"]; ok {
		p.Type, _ = t.oneOf(OpenAI, Demo)
	} else if !f.has("type", providerFields) {
		f.missing("type", "is missing: write type: %s (OpenAI, and everything compatible with it) or type: %s", OpenAI, Demo)
	}
	if retry, ok := given["retry"]; ok {
		p.Retry = retry.retry()
		delete(given, "retry")
	}
	if p.Type == Demo {
		for _, f := range fields {
			if f.key != "type" && f.key != "retry" {
				f.failKey("a provider of type demo takes nothing else: remove the field")
			}
		}
		return p
	}
	p.address(given)
	if key, ok := given["apiKeyEnv"]; ok {
		s, _ := p.variable(key.value)
		p.APIKey = Secret(s)
	} else if u, ok := given["baseURL"]; ok && strings.HasPrefix(p.BaseURL, official) {
		u.fail("OpenAI itself needs a key: add apiKeyEnv: %s", EnvAPIKey)
	}
	if len(given) == 1 && p.Type == OpenAI {
		p.fromEnvironment(f.doc)
	}
	return p
}

// retry reads how calls that fail are made again. Only what is set is not zero.
func (f field) retry() llm.Retry {
	var r llm.Retry
	var longest field
	for _, f := range f.fields("for", "initialInterval", "maxInterval", "backoff", "maxAttempts") {
		switch f.key {
		case "for":
			r.For, _ = f.duration(0, llm.MaxRetryFor, byDefault(llm.DefaultRetryFor))
		case "initialInterval":
			r.InitialInterval, _ = f.duration(llm.MinRetryInterval, llm.MaxRetryInterval, byDefault(llm.DefaultRetryInitial))
		case "maxInterval":
			r.MaxInterval, _ = f.duration(llm.MinRetryInterval, llm.MaxRetryInterval, byDefault(llm.DefaultRetryInterval))
			longest = f
		case "backoff":
			r.Backoff, _ = f.number(1, llm.MaxRetryBackoff)
		case "maxAttempts":
			r.MaxAttempts, _ = f.count(1_000_000, "no limit but for")
		}
	}
	if d := r.WithDefaults(); r.MaxInterval > 0 && r.MaxInterval < d.InitialInterval {
		longest.fail("is %s, must be at least initialInterval, %s", short(r.MaxInterval), short(d.InitialInterval))
	}
	return r
}

// providerFields is like fields, but knows that what is misspelt here, or does not
// belong here, may be a key.
func (f field) providerFields() []field {
	const inline = "apiKey"
	m, ok := f.doc.resolve(f.node).(*ast.MappingNode)
	if !ok {
		f.doc.hide(f.node)
		return f.fields(providerFields...)
	}
	var fields []field
	for _, e := range m.Values {
		if key := keyText(e); key != "type" && key != "baseURL" && key != "baseURLEnv" && key != "retry" {
			f.doc.hide(e.Value)
		}
	}
	for _, e := range f.fields() {
		switch {
		case plain(e.key) == plain(inline):
			e.failKey("a key must not stand in the file, where it is copied and committed: " +
				"put it into an environment variable and write apiKeyEnv: NAME_OF_THE_VARIABLE")
		case !has(providerFields, e.key):
			e.failKey("unknown field; %s", suggest(e.key, providerFields))
		default:
			fields = append(fields, e)
		}
	}
	return fields
}

// hide keeps a value out of excerpts, unless it is a word that is no secret.
func (d *document) hide(n ast.Node) { ast.Walk(hider{d}, d.resolve(n)) }

type hider struct{ doc *document }

// Visit implements [ast.Visitor].
func (h hider) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		if s := n.GetToken().Value; s != "" && s != OpenAI && s != Demo && !variable.MatchString(s) {
			h.doc.secrets = append(h.doc.secrets, s)
		}
	}
	return h
}

func (p *provider) address(given map[string]field) {
	literal, hasLiteral := given["baseURL"]
	env, hasEnv := given["baseURLEnv"]
	switch {
	case hasLiteral && hasEnv:
		env.failKey("baseURL is set as well: keep one of them")
	case hasLiteral:
		if s, ok := literal.word(); ok {
			p.BaseURL = literal.checkURL(s, "")
		}
	case hasEnv:
		if s, ok := p.variable(env.value); ok {
			p.BaseURL = env.checkURL(s, env.variableName())
		}
	}
}

func (v value) variableName() string {
	s, _ := v.word()
	return s
}

// variable returns what the variable that v names is set to.
func (p *provider) variable(v value) (string, bool) {
	name, ok := v.word()
	if !ok {
		return "", false
	}
	if !variable.MatchString(name) {
		v.fail("must be the name of an environment variable (capitals, digits and _), such as %s, not what it holds", EnvAPIKey)
		return "", false
	}
	s := strings.TrimSpace(v.doc.getenv(name))
	if s == "" {
		p.absent = append(p.absent, absent{v, name})
		return "", false
	}
	return s, true
}

// fromEnvironment is what a provider gets that says nothing of key and address:
// what OpenAI's own programs read. A key never goes to an address of the file
// unless the file says so.
func (p *provider) fromEnvironment(d *document) {
	p.implicit = true
	p.APIKey = Secret(strings.TrimSpace(d.getenv(EnvAPIKey)))
	p.BaseURL = strings.TrimSpace(d.getenv(EnvBaseURL))
	if p.APIKey == "" && p.BaseURL == "" {
		p.absent = append(p.absent, absent{name: EnvAPIKey})
	}
}

// checkURL returns the address without a slash at its end. From is the variable
// that it came from.
func (v value) checkURL(s, from string) string {
	if problem := urlProblem(s); problem != "" {
		if from != "" {
			problem = from + " " + problem
		}
		v.fail("%s", problem)
		return ""
	}
	return strings.TrimRight(s, "/")
}

// urlProblem does not repeat the address, which may hold a password.
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

// use notes that an agent has this model, and returns it.
func (m *models) use(v value) string {
	s, ok := v.word()
	if !ok {
		return ""
	}
	name, model, ok := strings.Cut(s, "/")
	p, known := m.byKey[name]
	switch {
	case !ok && known:
		v.fail("%q is only the provider: add the model, as in %s/%s", s, s, example(p))
	case !ok:
		v.fail("%q does not say the provider: write it as provider/model, such as openai/%s", s, s)
	case model == "":
		v.fail("%q does not say the model: write it as provider/model, such as openai/gpt-4.1-mini", s)
	case !known:
		v.fail("unknown provider %q; %s (providers are declared under models)", name, suggest(name, m.names()))
	default:
		m.mark(p, v)
		return s
	}
	return ""
}

func example(p *provider) string {
	if p.Type == Demo {
		return "demo"
	}
	return "gpt-4.1-mini"
}

// mark reports what a provider lacks with its first use.
func (m *models) mark(p *provider, v value) {
	if p.used {
		return
	}
	p.used = true
	for _, a := range p.absent {
		if p.implicit {
			v.fail("the environment variable %s is not set, and provider %q takes its key from there: "+
				"set it, or set %s to use another address, or use demo/demo to try without a model", a.name, p.Name, EnvBaseURL)
			continue
		}
		a.field.fail("the environment variable %s is not set, and an agent uses this provider: set it before starting", a.name)
	}
	if p.implicit && p.BaseURL != "" {
		if problem := urlProblem(p.BaseURL); problem != "" {
			v.fail("%s %s", EnvBaseURL, problem)
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

func (m *models) result() []Provider {
	var list []Provider
	for _, p := range m.byKey {
		if (p.declared || p.used) && len(p.absent) == 0 {
			list = append(list, p.Provider)
		}
	}
	slices.SortFunc(list, func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
