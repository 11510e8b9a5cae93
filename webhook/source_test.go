package webhook_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/webhook"
)

func TestValidate(t *testing.T) {
	good := with("k", webhook.Signature{Scheme: webhook.SchemeGitHub})
	require.NoError(t, good.Validate())
	for _, c := range []struct {
		change func(*webhook.Endpoint)
		want   string
	}{
		{func(s *webhook.Endpoint) { s.Name = "" }, "name: is required"},
		{func(s *webhook.Endpoint) { s.Name = "a/b" }, `name: "a/b" must be`},
		{func(s *webhook.Endpoint) { s.Secrets = nil }, "secrets: is required: without one, anybody could send events; to allow just that, set unsigned to true"},
		{func(s *webhook.Endpoint) { s.Secrets = []webhook.Secret{"k", ""} }, "secrets: must not be empty"},
		{func(s *webhook.Endpoint) { s.Unsigned = true }, "unsigned: excludes a signature and secrets"},
		{func(s *webhook.Endpoint) { s.Signature = webhook.Signature{} }, "signature.scheme: is required"},
		{func(s *webhook.Endpoint) { s.Signature.Scheme = "gitlab" }, `signature.scheme: "gitlab" is not one of github, stripe, slack, hmac`},
		{func(s *webhook.Endpoint) { s.Signature.Prefix = "x" }, "signature.prefix: is fixed by the scheme github"},
		{func(s *webhook.Endpoint) { s.Signature.Encoding = webhook.EncodingHex }, "signature.encoding: is fixed"},
		{func(s *webhook.Endpoint) { s.Signature.Algorithm = webhook.AlgorithmSHA256 }, "signature.algorithm: is fixed"},
		{func(s *webhook.Endpoint) { s.Signature.TimestampHeader = "X" }, "signature.timestampHeader: is fixed"},
		{func(s *webhook.Endpoint) { s.Signature.Header = "a b" }, `signature.header: "a b" is not the name of a header`},
		{func(s *webhook.Endpoint) { s.Signature.Tolerance = time.Minute }, "signature.tolerance: means nothing where no time is signed"},
		{func(s *webhook.Endpoint) { s.Signature = webhook.Signature{Scheme: webhook.SchemeHMAC} }, "signature.header: is required"},
		{func(s *webhook.Endpoint) {
			s.Signature = webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "X", Tolerance: time.Minute}
		}, "signature.tolerance: means nothing"},
		{func(s *webhook.Endpoint) {
			s.Signature = webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "X", TimestampHeader: "a:b"}
		}, `signature.timestampHeader: "a:b" is not the name`},
		{func(s *webhook.Endpoint) {
			s.Signature = webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "X", Encoding: "base32", Algorithm: "md5"}
		}, "signature.encoding: \"base32\" is not one of hex, base64\nsignature.algorithm: \"md5\" is not one of sha256, sha512"},
		{func(s *webhook.Endpoint) {
			s.Signature = webhook.Signature{Scheme: webhook.SchemeStripe, Tolerance: 24*time.Hour + 1}
		}, "signature.tolerance: is 24h0m0.000000001s, must be positive and at most 24h"},
		{func(s *webhook.Endpoint) {
			s.Signature = webhook.Signature{Scheme: webhook.SchemeSlack, Tolerance: -1}
		}, "signature.tolerance: is -1ns"},
		{func(s *webhook.Endpoint) { s.Event.Type = "" }, "event.type: is required"},
		{func(s *webhook.Endpoint) { s.Event.Type = "message" }, `event.type: "message" is not a type of environment event`},
		{func(s *webhook.Endpoint) { s.Event.Type = "tool_call" }, `event.type: "tool_call" is not a type`},
		{func(s *webhook.Endpoint) { s.Event.Thread = "" }, "event.thread: is required"},
		{func(s *webhook.Endpoint) { s.Event.Thread = "{payload.a" }, "event.thread: has a { without a }"},
		{func(s *webhook.Endpoint) { s.Event.Thread = "a}" }, "event.thread: has a } without a {"},
		{func(s *webhook.Endpoint) { s.Event.Thread = "{body.a}" }, "event.thread: has {body.a}: write {payload.path.to.field}, {header.Name} or {source}"},
		{func(s *webhook.Endpoint) { s.Event.Thread = "{payload..a}" }, "event.thread: has {payload..a}"},
		{func(s *webhook.Endpoint) { s.Event.Thread = "{payloads}" }, "event.thread: has {payloads}"},
		{func(s *webhook.Endpoint) { s.Event.Thread = "{header.}" }, "event.thread: has {header.}"},
		{func(s *webhook.Endpoint) { s.Event.ID = "{source}-1" }, "event.id: is the same for all requests"},
		{func(s *webhook.Endpoint) { s.Event.Timestamp = "1700000000" }, "event.timestamp: is the same for all requests"},
		{func(s *webhook.Endpoint) { s.Event.Payload = "x{payload.a}" }, "event.payload: must be a single field of the body"},
		{func(s *webhook.Endpoint) { s.Event.Payload = "{header.X}" }, "event.payload: must be a single field of the body"},
		{func(s *webhook.Endpoint) { s.Event.Title = "x" }, "event.title: is that of threads that are opened"},
		{func(s *webhook.Endpoint) { s.Event.Open, s.Event.Title = true, "{title}" }, "event.title: has {title}: write {payload.path.to.field}"},
		{func(s *webhook.Endpoint) { s.Event.Agents = []string{"a"} }, "event.agents: are those of threads that are opened"},
		{func(s *webhook.Endpoint) { s.Event.Open, s.Event.Agents = true, []string{"a", "b c"} }, `event.agents[1]: "b c" must be`},
	} {
		t.Run(c.want, func(t *testing.T) {
			s := good
			c.change(&s)
			require.ErrorContains(t, s.Validate(), c.want)
		})
	}
	t.Run("all mistakes at once", func(t *testing.T) {
		err := webhook.Endpoint{Name: "x y", Event: webhook.Event{Type: "{", Thread: "}"}}.Validate()
		for _, field := range []string{"name", "secrets", "signature.scheme", "event.type", "event.thread"} {
			require.ErrorContains(t, err, field+": ")
		}
	})
	t.Run("an unsigned source is checked as well", func(t *testing.T) {
		require.ErrorContains(t, webhook.Endpoint{Name: "x", Unsigned: true}.Validate(), "event.type: is required")
	})
}

func TestCheck(t *testing.T) {
	a := with("k", webhook.Signature{Scheme: webhook.SchemeGitHub})
	b := a
	b.Name = "b"
	require.NoError(t, webhook.ValidateAll(nil))
	require.NoError(t, webhook.ValidateAll([]webhook.Endpoint{a, b}))
	require.EqualError(t, webhook.ValidateAll([]webhook.Endpoint{a, b, a}), `[2]: name: "s" is already used by another webhook: choose another name`)
	b.Secrets = nil
	require.ErrorContains(t, webhook.ValidateAll([]webhook.Endpoint{a, b}), "[1]: secrets: is required")
}

func TestSecretStaysHidden(t *testing.T) {
	s := with("whsec_verysecret", webhook.Signature{Scheme: webhook.SchemeStripe})
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	for _, shown := range []string{
		fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), fmt.Sprintf("%q", s.Secrets), string(encoded),
		s.Secrets[0].LogValue().String(),
	} {
		require.Contains(t, shown, "***")
		require.NotContains(t, shown, "verysecret")
	}
	require.Empty(t, webhook.Secret("").String())
}
