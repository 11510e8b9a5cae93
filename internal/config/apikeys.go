package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

var (
	keyFields = []string{"name", "roles", "hash", "secretEnv", "namespace", "expires"}
	roleNames = auth.Roles(auth.AllRoles()).Strings()
)

// apiKeys reads the API keys of the file, which has their hashes or names the variables that
// hold them.
func (d *document) apiKeys(v value) []auth.Key {
	if v.kind() == "text" {
		d.hide(v.node)
	}
	var keys []auth.Key
	for _, item := range v.items() {
		k, ok := item.apiKey()
		if !ok {
			continue
		}
		if err := auth.CheckKeys(append(slices.Clone(keys), k)); err != nil {
			item.fail("%s", err)
			continue
		}
		keys = append(keys, k)
	}
	return keys
}

// apiKey reads one key; ok is false if that failed, which is reported.
func (v value) apiKey() (k auth.Key, ok bool) {
	before := len(v.doc.errs)
	places := map[string]field{}
	for _, f := range v.guarded(keyFields) {
		places[f.key] = f
		switch f.key {
		case "name":
			k.Name, _ = f.word()
		case "roles":
			for _, name := range words(f.items(), func(v value) (string, bool) { return v.oneOf(roleNames...) }) {
				k.Roles = append(k.Roles, auth.Role(name))
			}
		case "hash":
			k.Hash, _ = f.word()
		case "secretEnv":
			f.tokenEnv(&k)
		case "namespace":
			k.Namespace, _ = f.word()
			var wrong *event.FieldError
			if k.Namespace != "" && errors.As(signals.CheckID("namespace", k.Namespace), &wrong) {
				f.fail("%s", wrong.Problem)
			}
		case "expires":
			k.ExpiresAt = f.moment()
		}
	}
	if hash, both := places["hash"]; both && places["secretEnv"].key != "" {
		hash.fail("goes without secretEnv: keep one of them")
	}
	if len(v.doc.errs) > before {
		return k, false
	}
	var wrong *event.FieldError
	switch {
	case places["hash"].key == "" && places["secretEnv"].key == "":
		v.missing("hash", "is required, or secretEnv: the hash of the key, which \"starter keys generate\" prints, or the variable that holds the key")
	case errors.As(k.Validate(), &wrong):
		if at, set := places[wrong.Field]; set {
			at.fail("%s", wrong.Problem)
		} else {
			v.missing(wrong.Field, "%s", wrong.Problem)
		}
	}
	return k, len(v.doc.errs) == before
}

// tokenEnv reads the variable that holds a key. No error repeats what it holds.
func (f field) tokenEnv(k *auth.Key) {
	name, ok := f.word()
	switch {
	case !ok:
		return
	case !variable.MatchString(name):
		f.fail("must be the name of an environment variable (capitals, digits and _), such as CI_API_KEY, not what it holds")
		return
	}
	secret := strings.TrimSpace(f.doc.getenv(name))
	if secret == "" {
		f.fail("the environment variable %s is not set: set it before starting", name)
		return
	}
	_, token, err := auth.ParseToken(secret)
	if err != nil {
		f.fail("the environment variable %s %s", name, err)
		return
	}
	k.Hash = token.Hash()
}

// moment reads a day, which begins in UTC, or a time.
func (f field) moment() time.Time {
	text, ok := f.word()
	if !ok {
		return time.Time{}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	f.fail("is not a day or a time: write it like 2027-01-31 or 2027-01-31T12:00:00Z")
	return time.Time{}
}
