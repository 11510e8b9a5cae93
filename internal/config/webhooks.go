package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/webhook"
)

var (
	webhookFields   = []string{"name", "signature", "secretEnv", "unsigned", "event"}
	signatureFields = []string{"scheme", "header", "prefix", "encoding", "algorithm", "timestampHeader", "tolerance"}
	mappingFields   = []string{"type", "thread", "id", "envName", "payload", "timestamp", "open", "agents"}

	webhookSchemes = []string{string(webhook.GitHub), string(webhook.Stripe), string(webhook.Slack), string(webhook.HMAC)}
)

// webhooks reads the sources of webhooks, which may open threads with these agents.
func (d *document) webhooks(v value, agents agent.Fixed) []webhook.Source {
	if v.kind() == "text" {
		d.hide(v.node)
	}
	var sources []webhook.Source
	lines := map[string]int{}
	for _, item := range v.items() {
		r := &webhookReader{item: item, agents: agents, places: map[string]*field{}}
		s := r.source()
		if name := r.places["name"]; name != nil {
			if line, taken := lines[s.Name]; taken {
				name.fail("another webhook has the name %q already, in line %d: choose another name", s.Name, line)
			} else {
				lines[s.Name] = name.at.Line
			}
		}
		sources = append(sources, s)
	}
	return sources
}

// webhookReader reads one source. What is right is for package webhook to say, by the
// names of fields, so the reader keeps where they stand.
type webhookReader struct {
	item   value
	agents agent.Fixed

	// signature and event are the sections, if they are there.
	signature *field
	event     *field

	// places are the fields that were read; nil if that failed, which is reported already.
	places map[string]*field
}

func (r *webhookReader) source() webhook.Source {
	var s webhook.Source
	for _, f := range r.item.guarded(webhookFields) {
		switch f.key {
		case "name":
			s.Name = r.word("name", f)
		case "signature":
			r.signature = &f
			s.Signature = r.readSignature(f)
		case "secretEnv":
			s.Secrets = f.secrets()
		case "unsigned":
			// One that cannot be read is mistake enough: nothing else is missing then.
			unsigned, ok := f.boolean()
			s.Unsigned = unsigned || !ok
			r.read("unsigned", f, ok)
		case "event":
			r.event = &f
			s.Event = r.readEvent(f)
		}
	}
	if err := s.Validate(); err != nil {
		r.report(err)
	}
	return s
}

// guarded is like fields, but knows that what is misspelt here may be a secret.
func (v value) guarded(known []string) []field {
	m, ok := v.doc.resolve(v.node).(*ast.MappingNode)
	if !ok {
		v.doc.hide(v.node)
		return v.fields(known...)
	}
	for _, e := range m.Values {
		if key := keyText(e); key == "secretEnv" || !has(known, key) {
			v.doc.hide(e.Value)
		}
	}
	var fields []field
	for _, f := range v.fields() {
		switch {
		case plain(f.key) == "secret" || plain(f.key) == "secrets":
			f.failKey("a secret must not stand in the file, where it is copied and committed: " +
				"put it into an environment variable and write secretEnv: NAME_OF_THE_VARIABLE beside name")
		case !has(known, f.key):
			f.failKey("unknown field; %s", suggest(f.key, known))
		default:
			fields = append(fields, f)
		}
	}
	return fields
}

// read keeps the place of a field.
func (r *webhookReader) read(name string, f field, ok bool) {
	r.places[name] = nil
	if ok {
		r.places[name] = &f
	}
}

func (r *webhookReader) word(name string, f field) string {
	if strings.HasPrefix(name, "event.") && f.kind() == "a mapping" {
		f.fail("is a mapping, must be text: put a text that begins with a brace in quotes")
		r.read(name, f, false)
		return ""
	}
	s, ok := f.word()
	r.read(name, f, ok)
	return s
}

// readSignature reads a signature, or the name of its scheme alone.
func (r *webhookReader) readSignature(f field) (s webhook.Signature) {
	if f.kind() == "text" {
		s.Scheme = r.scheme(f)
		return s
	}
	for _, f := range f.guarded(signatureFields) {
		switch f.key {
		case "scheme":
			s.Scheme = r.scheme(f)
		case "header":
			s.Header = r.word("signature.header", f)
		case "prefix":
			var ok bool
			s.Prefix, ok = f.text()
			r.read("signature.prefix", f, ok)
		case "encoding":
			s.Encoding = webhook.Encoding(r.word("signature.encoding", f))
		case "algorithm":
			s.Algorithm = webhook.Algorithm(r.word("signature.algorithm", f))
		case "timestampHeader":
			s.TimestampHeader = r.word("signature.timestampHeader", f)
		case "tolerance":
			var ok bool
			s.Tolerance, ok = f.duration(0, webhook.MaxTolerance, byDefault(webhook.DefaultTolerance))
			r.read("signature.tolerance", f, ok)
		}
	}
	return s
}

// scheme does not repeat what it does not know: that may be the secret.
func (r *webhookReader) scheme(f field) webhook.Scheme {
	s, ok := f.word()
	if ok && !has(webhookSchemes, s) {
		f.doc.hide(f.node)
		f.fail("is not known; %s", suggest(s, webhookSchemes))
		ok = false
	}
	r.read("signature.scheme", f, ok)
	return webhook.Scheme(s)
}

// secrets reads the variable that holds the secret, or several: each of them will do.
func (f field) secrets() []webhook.Secret {
	variables := []value{f.value}
	if _, list := f.doc.resolve(f.node).(*ast.SequenceNode); list {
		if variables = f.items(); len(variables) == 0 {
			f.fail("is empty: name at least one variable")
		}
	}
	var secrets []webhook.Secret
	var names []string
	for _, v := range variables {
		name, ok := v.word()
		switch {
		case !ok:
			continue
		case !variable.MatchString(name):
			v.fail("must be the name of an environment variable (capitals, digits and _), such as GITHUB_WEBHOOK_SECRET, not what it holds")
			continue
		case slices.Contains(names, name):
			v.fail("%q is in the list twice: remove one", name)
			continue
		}
		names = append(names, name)
		secret := strings.TrimSpace(v.doc.getenv(name))
		if secret == "" {
			v.fail("the environment variable %s is not set: set it before starting", name)
			continue
		}
		secrets = append(secrets, webhook.Secret(secret))
	}
	return secrets
}

func (r *webhookReader) readEvent(f field) (e webhook.Event) {
	for _, f := range f.fields(mappingFields...) {
		name := "event." + f.key
		switch f.key {
		case "type":
			e.Type = r.word(name, f)
		case "thread":
			e.Thread = r.word(name, f)
		case "id":
			e.ID = r.word(name, f)
		case "envName":
			e.EnvName = r.word(name, f)
		case "payload":
			e.Payload = r.word(name, f)
		case "timestamp":
			e.Timestamp = r.word(name, f)
		case "open":
			open, ok := f.boolean()
			e.Open = open || !ok
			r.read(name, f, ok)
		case "agents":
			e.Agents = words(f.items(), func(v value) (string, bool) { return v.agentOf(r.agents) })
			r.read(name, f, true)
		}
	}
	return e
}

// report says what package webhook finds wrong, at its place.
func (r *webhookReader) report(err error) {
	missing := map[string]bool{}
	for _, err := range all(err) {
		var problem *event.FieldError
		if !errors.As(err, &problem) {
			continue
		}
		if place, read := r.places[problem.Field]; read {
			if place != nil {
				place.fail("%s", problem.Problem)
			}
			continue
		}
		section, key := r.section(problem.Field)
		if !missing[section.path+key] && !section.set(key) {
			section.missing(key, "%s", cmp.Or(wholeSections[key], problem.Problem))
		}
		missing[section.path+key] = true
	}
}

// wholeSections are the sections that can be missing as a whole.
var wholeSections = map[string]string{
	"signature": "is required: how requests are signed, such as github, stripe, slack or hmac",
	"event":     "is required: what becomes of a request, by its type and thread",
}

// section is a part of a source in which a field can be missing.
type section struct {
	value
	known []string

	// short says that it is no mapping, and need not be one.
	short bool
}

// set reports whether the field is there, or was meant to be: then it is a mistake of its
// own.
func (s section) set(key string) bool { return !s.short && s.has(key, s.known) }

func (r *webhookReader) section(name string) (section, string) {
	whole := section{value: r.item, known: webhookFields}
	parent, key, nested := strings.Cut(name, ".")
	switch {
	case name == "secrets":
		return whole, "secretEnv"
	case !nested:
		return whole, name
	case parent == "signature" && r.signature != nil:
		return section{r.signature.value, signatureFields, r.signature.kind() == "text"}, key
	case parent == "event" && r.event != nil:
		return section{r.event.value, mappingFields, false}, key
	}
	return whole, parent
}
