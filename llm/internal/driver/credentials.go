package driver

import (
	"net/http"
	"regexp"
	"strings"
)

// CredentialsError means that a request was not sent, since there are no credentials for it.
type CredentialsError struct {
	Err error

	// Transient means that there may be credentials later.
	Transient bool
}

func (e *CredentialsError) Error() string { return "no credentials: " + e.Err.Error() }

func (e *CredentialsError) Unwrap() error { return e.Err }

// keyHeaders are the headers with the credentials of requests.
var keyHeaders = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// accessKey matches the id of a key with which a request is signed.
var accessKey = regexp.MustCompile(`Credential=([^/]+)/`)

// secretsOf returns the credentials of a request, which servers may repeat in errors.
func secretsOf(h http.Header) (secrets []string) {
	for _, name := range keyHeaders {
		secret := strings.TrimPrefix(h.Get(name), "Bearer ")
		if signed := accessKey.FindStringSubmatch(secret); signed != nil {
			secret = signed[1]
		}
		secrets = append(secrets, secret)
	}
	return secrets
}

// redact removes credentials from a text. A secret below 8 characters may be an ordinary word and
// remains.
func redact(s string, secrets ...string) string {
	const least = 8
	for _, secret := range secrets {
		if len(secret) >= least {
			s = strings.ReplaceAll(s, secret, "[key]")
		}
	}
	return s
}
