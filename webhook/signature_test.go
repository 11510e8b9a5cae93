package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/webhook"
)

// signed is a request with its signature according to its sender and openssl.
type signed struct {
	source webhook.Endpoint
	header map[string]string
	body   string
	sent   time.Time
}

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
	"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
	"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
	"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

const stripeBody = `{"id":"evt_1","type":"charge.succeeded"}`

func with(secret string, s webhook.Signature) webhook.Endpoint {
	return webhook.Endpoint{
		Name: "s", Signature: s, Secrets: []webhook.Secret{webhook.Secret(secret)},
		Event: webhook.Event{Type: "webhook.received", Thread: "t1"},
	}
}

// vectors are published by the senders or in RFC 4231, or were generated with openssl.
var vectors = map[string]signed{
	"github": {
		with("It's a Secret to Everybody", webhook.Signature{Scheme: webhook.SchemeGitHub}),
		map[string]string{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		"Hello, World!",
		time.Time{},
	},
	"slack": {
		with("8f742231b10e8888abcd99yyyzzz85a5", webhook.Signature{Scheme: webhook.SchemeSlack}),
		map[string]string{
			"X-Slack-Request-Timestamp": "1531420618",
			"X-Slack-Signature":         "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
		},
		slackBody, time.Unix(1531420618, 0),
	},
	"stripe": {
		with("whsec_test", webhook.Signature{Scheme: webhook.SchemeStripe}),
		map[string]string{"Stripe-Signature": "t=1492774577,v0=6ffbb59b,v1=a2f9680b7feeb431729bd8d607c4d671f9b61b57aa013ce54224930c04962ece"},
		stripeBody, time.Unix(1492774577, 0),
	},
	"stripe while it rolls the secret": {
		with("whsec_test", webhook.Signature{Scheme: webhook.SchemeStripe}),
		map[string]string{"Stripe-Signature": "t=1492774577, v1=cce39f41e81b1bc47145dd664b32cada2d637518dc4e9d737a3649cfc7ec4c43, " +
			"v1=a2f9680b7feeb431729bd8d607c4d671f9b61b57aa013ce54224930c04962ece"},
		stripeBody, time.Unix(1492774577, 0),
	},
	"hmac": {
		with("Jefe", webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "X-Signature"}),
		map[string]string{"X-Signature": "5BDCC146BF60754E6A042426089575C75A003F089D2739839DEC58B964EC3843"},
		"what do ya want for nothing?",
		time.Time{},
	},
	"hmac with sha512 and a prefix": {
		with("Jefe", webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "X-Signature", Algorithm: webhook.AlgorithmSHA512, Prefix: "sig "}),
		map[string]string{"X-Signature": "sig 164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554" +
			"9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"},
		"what do ya want for nothing?",
		time.Time{},
	},
	"hmac with time and base64": {
		with("sesame", webhook.Signature{
			Scheme: webhook.SchemeHMAC, Header: "X-Signature", Algorithm: webhook.AlgorithmSHA512, Encoding: webhook.EncodingBase64,
			TimestampHeader: "X-Sent", Tolerance: time.Minute,
		}),
		map[string]string{
			"X-Sent":      "1531420618",
			"X-Signature": "nlb4jiQ+6+y2hafL3olhRUlvYZOvbWU4WEdK0te8AsWP25jzxThiGWPReeSZt6Mp2/Vlx4LcyZnHWFgVYZvQew==",
		},
		stripeBody, time.Unix(1531420618, 0),
	},
}

func headers(h map[string]string) http.Header {
	out := http.Header{}
	for name, value := range h {
		out.Set(name, value)
	}
	return out
}

// refused asserts that err is about a field and does not contain the expected signature.
func refused(t *testing.T, err error, field, problem string) {
	t.Helper()
	var wrong *event.FieldError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, field, wrong.Field)
	require.Contains(t, wrong.Problem, problem)
	require.NotRegexp(t, `[0-9A-Fa-f]{32}`, err.Error())
}

func TestVerify(t *testing.T) {
	for name, v := range vectors {
		t.Run("S3-55 "+name, func(t *testing.T) {
			require.NoError(t, v.source.Validate())
			header := headers(v.header)
			require.NoError(t, v.source.Verify(header, []byte(v.body), v.sent))

			signature := "X-Signature"
			for name := range v.header {
				if strings.Contains(name, "Signature") {
					signature = name
				}
			}
			t.Run("tampered body", func(t *testing.T) {
				refused(t, v.source.Verify(header, []byte(v.body+" "), v.sent), "header."+signature, "does not match the body")
				refused(t, v.source.Verify(header, nil, v.sent), "header."+signature, "does not match the body")
			})
			t.Run("another secret", func(t *testing.T) {
				s := v.source
				s.Secrets = []webhook.Secret{"other"}
				refused(t, s.Verify(header, []byte(v.body), v.sent), "header."+signature, "does not match")
			})
			t.Run("rotation", func(t *testing.T) {
				s := v.source
				s.Secrets = []webhook.Secret{"new", v.source.Secrets[0]}
				require.NoError(t, s.Verify(header, []byte(v.body), v.sent))
			})
			t.Run("no secret", func(t *testing.T) {
				s := v.source
				s.Secrets = nil
				refused(t, s.Verify(header, []byte(v.body), v.sent), "header."+signature, "does not match")
			})
			t.Run("missing", func(t *testing.T) {
				h := header.Clone()
				h.Del(signature)
				refused(t, v.source.Verify(h, []byte(v.body), v.sent), "header."+signature, "is missing")
			})
			t.Run("cut", func(t *testing.T) {
				h := header.Clone()
				value := h.Get(signature)
				h.Set(signature, value[:len(value)-2])
				var wrong *event.FieldError
				require.ErrorAs(t, v.source.Verify(h, []byte(v.body), v.sent), &wrong)
				require.Equal(t, "header."+signature, wrong.Field)
			})
		})
	}
}

// TestEmptySecret: anyone can sign with an empty secret, such as one from an unset variable.
func TestEmptySecret(t *testing.T) {
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte("{}"))
	header := headers(map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))})
	s := with("", webhook.Signature{Scheme: webhook.SchemeGitHub})
	refused(t, s.Verify(header, []byte("{}"), time.Time{}), "header.X-Hub-Signature-256", "does not match")
	require.ErrorContains(t, s.Validate(), "secrets: must not be empty")
}

func TestStale(t *testing.T) {
	for name, field := range map[string]string{
		"slack": "X-Slack-Request-Timestamp", "stripe": "Stripe-Signature", "hmac with time and base64": "X-Sent",
	} {
		v := vectors[name]
		tolerance := webhook.DefaultTolerance
		if v.source.Signature.Tolerance != 0 {
			tolerance = v.source.Signature.Tolerance
		}
		for _, off := range []time.Duration{tolerance, -tolerance} {
			t.Run(fmt.Sprintf("S3-55 %s after %s", name, off), func(t *testing.T) {
				header, body := headers(v.header), []byte(v.body)
				require.NoError(t, v.source.Verify(header, body, v.sent.Add(off)))
				for _, more := range []time.Duration{off / time.Duration(tolerance/time.Second), off * 1000} {
					refused(t, v.source.Verify(header, body, v.sent.Add(off+more)), "header."+field, "is stale")
				}
			})
		}
	}
	t.Run("a time that is not the one that was signed", func(t *testing.T) {
		v := vectors["slack"]
		header := headers(v.header)
		header.Set("X-Slack-Request-Timestamp", "1531499999")
		refused(t, v.source.Verify(header, []byte(v.body), time.Unix(1531499999, 0)), "header.X-Slack-Signature", "does not match")
		header.Del("X-Slack-Request-Timestamp")
		refused(t, v.source.Verify(header, []byte(v.body), v.sent), "header.X-Slack-Request-Timestamp", "is missing")
	})
	t.Run("a time that ends in the body", func(t *testing.T) {
		// The signed text is "1531420618.5.5" whether the 5 in the middle belongs to the time or to
		// the body.
		mac := hmac.New(sha256.New, []byte("k"))
		mac.Write([]byte("1531420618.5.5"))
		s := with("k", webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "X-Signature", TimestampHeader: "X-Sent"})
		header := headers(map[string]string{"X-Signature": hex.EncodeToString(mac.Sum(nil)), "X-Sent": "1531420618"})
		now := time.Unix(1531420618, 0)
		require.NoError(t, s.Verify(header, []byte("5.5"), now))
		header.Set("X-Sent", "1531420618.5")
		refused(t, s.Verify(header, []byte("5"), now), "header.X-Sent", "is not a time")
	})
}

func TestMalformedSignatures(t *testing.T) {
	for _, c := range []struct{ vector, header, value, problem string }{
		{"github", "X-Hub-Signature-256", "sha1=757107ea", `must begin with "sha256="`},
		{"github", "X-Hub-Signature-256", "sha256=hello", "is not a signature in hex"},
		{"github", "X-Hub-Signature-256", "sha256=", "does not match"},
		{"hmac with time and base64", "X-Signature", "%%%", "is not a signature in base64"},
		{"stripe", "Stripe-Signature", "v1=a2f9680b", "has no t"},
		{"stripe", "Stripe-Signature", "t=1492774577,v0=a2f9680b", "has no v1"},
		{"stripe", "Stripe-Signature", "t=1492774577,v1=hello", "has no v1"},
		{"stripe", "Stripe-Signature", ",,=,", "has no t"},
	} {
		t.Run(c.vector+" "+c.value, func(t *testing.T) {
			v := vectors[c.vector]
			header := headers(v.header)
			header.Set(c.header, c.value)
			refused(t, v.source.Verify(header, []byte(v.body), v.sent), "header."+c.header, c.problem)
		})
	}
}

func TestUnsigned(t *testing.T) {
	s := webhook.Endpoint{Name: "open", Unsigned: true, Event: webhook.Event{Type: "x", Thread: "t1"}}
	require.NoError(t, s.Validate())
	require.NoError(t, s.Verify(http.Header{}, []byte("{}"), time.Time{}))
}
