package webhook_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/webhook"
)

const push = `{"ref":"refs/heads/main","size":2,"forced":false,"base":null,
 "repository":{"full_name":"acme/shop","topics":["go","ai"]},
 "commits":[{"id":"c1","author":{"name":"Ann"}},{"id":"c2","at":1700000000.5}]}`

func mapped(scheme webhook.Scheme, e webhook.Event) webhook.Endpoint {
	return webhook.Endpoint{Name: "hub", Signature: webhook.Signature{Scheme: scheme}, Secrets: []webhook.Secret{"k"}, Event: e}
}

func TestMap(t *testing.T) {
	s := mapped(webhook.SchemeGitHub, webhook.Event{
		Type: "github.{header.x-github-event}", Thread: "{payload.repository.full_name}", EnvName: "{source}/{payload.size}",
		Timestamp: "{payload.commits.1.at}", Payload: "{payload.commits.0}",
	})
	require.NoError(t, s.Validate())
	header := headers(map[string]string{"X-GitHub-Event": "push", "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"})
	e, threadID, err := s.Map(header, []byte(push))
	require.NoError(t, err)
	require.Equal(t, "acme-shop", threadID)
	require.Equal(t, event.EnvEvent{
		ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Type: "github.push", Timestamp: 1700000000500,
		Metadata: event.EnvMetadata{TriggerSessionID: "acme-shop", EnvName: "hub/2", Source: event.SourceEnv},
		Payload:  json.RawMessage(`{"id":"c1","author":{"name":"Ann"}}`),
	}, e)
	require.NoError(t, signals.EnvPost(e).Validate(threadID))

	t.Run("defaults", func(t *testing.T) {
		s := mapped(webhook.SchemeHMAC, webhook.Event{Type: "webhook.received", Thread: "ops"})
		body := []byte(push)
		e, threadID, err := s.Map(http.Header{}, body)
		require.NoError(t, err)
		require.Equal(t, "ops", threadID)
		require.Equal(t, "hub", e.Metadata.EnvName)
		require.Zero(t, e.Timestamp)
		require.Equal(t, push, string(e.Payload))
		clear(body)
		require.Equal(t, push, string(e.Payload), "the event has the memory of the request")
	})
}

func TestStart(t *testing.T) {
	start := func(title, body string) signals.Start {
		s := mapped(webhook.SchemeGitHub, webhook.Event{Type: "x", Thread: "t", Open: true, Agents: []string{"bob"}, Title: title})
		require.NoError(t, s.Validate())
		start := s.Start(headers(map[string]string{"X-Kind": "alarm"}), []byte(body))
		require.NoError(t, start.Validate())
		require.Equal(t, []string{"bob"}, start.Agents)
		return start
	}
	require.Empty(t, start("", push).Title)
	require.Equal(t, "acme/shop: alarm", start("{payload.repository.full_name}: {header.X-Kind}", push).Title)
	for _, c := range []struct{ body, want string }{
		{`{"t":" Fix\nthe\u202e build\u0000 "}`, "Fix the build"},
		{`{"t":"` + strings.Repeat("é", 300) + `"}`, strings.Repeat("é", 198) + "…"},
		{`{"t":7}`, "7"},
		{`{"t":" \u200b"}`, ""},
		{`{"other":1}`, ""}, // the event arrives without it
		{`{"t":{}}`, ""},
		{`{"t":"a","t":"b"}`, ""}, // no event
	} {
		require.Equal(t, c.want, start("{payload.t}", c.body).Title, c.body)
	}
}

func TestTemplates(t *testing.T) {
	header := headers(map[string]string{"X-Kind": "alarm", "X-Empty": ""})
	for _, c := range []struct{ template, want string }{
		{"plain", "plain"},
		{"{source}", "hub"},
		{"a-{header.X-Kind}-{source}-b", "a-alarm-hub-b"},
		{"{payload.ref}", "refs/heads/main"},
		{"{payload.size}", "2"},
		{"{payload.forced}", "false"},
		{"{payload.commits.1.id}", "c2"},
		{"{payload.repository.topics.0}{payload.repository.topics.1}", "goai"},
		{"x{header.X-Empty}y", "xy"},
	} {
		t.Run(c.template, func(t *testing.T) {
			e, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: c.template, Thread: "t"}).Map(header, []byte(push))
			require.NoError(t, err)
			require.Equal(t, c.want, e.Type)
		})
	}
	for _, c := range []struct{ template, field, problem string }{
		{"{header.X-Other}", "header.X-Other", "is missing in the request; event.type is made of it"},
		{"{payload.repo.name}", "payload.repo.name", `is missing: payload has no "repo"; event.type is made of it`},
		{"{payload.repository.owner.login}", "payload.repository.owner.login", `is missing: payload.repository has no "owner"`},
		{"{payload.commits.2.id}", "payload.commits.2.id", `payload.commits has no "2"`},
		{"{payload.commits.-1}", "payload.commits.-1", `payload.commits has no "-1"`},
		{"{payload.size.x}", "payload.size.x", `payload.size has no "x"`},
		{"{payload.base}", "payload.base", "is null"},
		{"{payload.base.x}", "payload.base.x", `payload.base has no "x"`},
		{"{payload.repository}", "payload.repository", "is an object"},
		{"{payload.commits}", "payload.commits", "is a list"},
		{"{header.X-Empty}", "event.type", "is required"},
		{"{payload.none", "event.type", "has a { without a }"},
	} {
		t.Run("not "+c.template, func(t *testing.T) {
			_, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: c.template, Thread: "t"}).Map(header, []byte(push))
			refused(t, err, c.field, c.problem)
		})
	}
	for field, e := range map[string]webhook.Event{
		"event.thread":    {Type: "x", Thread: "{payload.gone}"},
		"event.id":        {Type: "x", Thread: "t", ID: "{payload.gone}"},
		"event.envName":   {Type: "x", Thread: "t", EnvName: "{payload.gone}"},
		"event.payload":   {Type: "x", Thread: "t", Payload: "{payload.gone}"},
		"event.timestamp": {Type: "x", Thread: "t", Timestamp: "{payload.gone}"},
	} {
		t.Run("missing for "+field, func(t *testing.T) {
			_, _, err := mapped(webhook.SchemeHMAC, e).Map(header, []byte(push))
			refused(t, err, "payload.gone", field+" is made of it")
		})
	}
	t.Run("types that are no environment events", func(t *testing.T) {
		_, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "{payload.t}", Thread: "t"}).Map(header, []byte(`{"t":"message"}`))
		refused(t, err, "event.type", `"message" is not a type of environment event`)
	})
}

func TestEventIDs(t *testing.T) {
	id := func(t *testing.T, scheme webhook.Scheme, template string, header map[string]string, body string) string {
		t.Helper()
		e, _, err := mapped(scheme, webhook.Event{Type: "x", Thread: "t", ID: template}).Map(headers(header), []byte(body))
		require.NoError(t, err)
		require.NoError(t, signals.ValidateEventID("id", e.ID))
		return e.ID
	}
	delivery := map[string]string{"X-GitHub-Delivery": "d-1"}
	t.Run("S3-55 the sender's own", func(t *testing.T) {
		require.Equal(t, "d-1", id(t, webhook.SchemeGitHub, "", delivery, `{"a":1}`))
		require.Equal(t, "evt_1", id(t, webhook.SchemeStripe, "", nil, stripeBody))
		require.Equal(t, "Ev08MFMKH6", id(t, webhook.SchemeSlack, "", nil, `{"event_id":"Ev08MFMKH6"}`))
		require.Equal(t, "hub-7", id(t, webhook.SchemeHMAC, "{source}-{payload.n}", nil, `{"n":7}`))
	})
	t.Run("S3-55 the same request is the same event", func(t *testing.T) {
		for _, scheme := range []webhook.Scheme{webhook.SchemeGitHub, webhook.SchemeStripe, webhook.SchemeSlack, webhook.SchemeHMAC} {
			a := id(t, scheme, "", nil, `{"a":1}`)
			require.Equal(t, a, id(t, scheme, "", nil, `{"a":1}`))
			require.NotEqual(t, a, id(t, scheme, "", nil, `{"a":2}`))
		}
		s := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "t"})
		s.Name = "other"
		e, _, err := s.Map(http.Header{}, []byte(`{"a":1}`))
		require.NoError(t, err)
		require.NotEqual(t, id(t, webhook.SchemeHMAC, "", nil, `{"a":1}`), e.ID)
	})
	t.Run("one that no event can have is derived", func(t *testing.T) {
		for _, given := range []string{"a.b", "a/b", "-a", strings.Repeat("a", 129), "é"} {
			body, err := json.Marshal(map[string]string{"n": given})
			require.NoError(t, err)
			derived := id(t, webhook.SchemeHMAC, "{payload.n}", nil, string(body))
			require.Len(t, derived, 36)
			require.Equal(t, derived, id(t, webhook.SchemeHMAC, "{payload.n}", map[string]string{"X": "y"}, string(body)))
		}
		require.Len(t, id(t, webhook.SchemeGitHub, "", map[string]string{"X-GitHub-Delivery": "a.b"}, "{}"), 36)
	})
	t.Run("one that is empty", func(t *testing.T) {
		_, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "t", ID: "{payload.n}"}).Map(nil, []byte(`{"n":""}`))
		refused(t, err, "event.id", "is empty")
		require.Len(t, id(t, webhook.SchemeStripe, "", nil, `{"id":""}`), 36)
	})
}

func TestThreadIDs(t *testing.T) {
	thread := func(t *testing.T, name string) string {
		t.Helper()
		body, err := json.Marshal(map[string]string{"n": name})
		require.NoError(t, err)
		_, id, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "{payload.n}"}).Map(nil, body)
		require.NoError(t, err)
		require.NoError(t, signals.ValidateID("threadId", id))
		return id
	}
	for name, want := range map[string]string{
		"t1":                     "t1",
		"a.b_c:d@e-f":            "a.b_c:d@e-f",
		"acme/shop#7":            "acme-shop-7",
		"/leading":               "leading",
		"@ann":                   "ann",
		"two words {x}":          "two-words--x-",
		strings.Repeat("a", 128): strings.Repeat("a", 128),
	} {
		t.Run(want, func(t *testing.T) { require.Equal(t, want, thread(t, name)) })
	}
	t.Run("what would lose too much", func(t *testing.T) {
		seen := map[string]string{}
		for _, name := range []string{
			strings.Repeat("a", 129), strings.Repeat("a", 130), strings.Repeat("/", 200), strings.Repeat("é", 100),
			"项目一", "项目二", "grün", "grün ", "a\nb", "a\tb", "...", "//", "project-项目",
		} {
			id := thread(t, name)
			require.Regexp(t, `[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$`, id)
			require.Equal(t, id, thread(t, name))
			require.Empty(t, seen[id], name)
			seen[id] = name
		}
		require.True(t, strings.HasPrefix(thread(t, strings.Repeat("a", 500)), strings.Repeat("a", 91)+"-"))
		require.True(t, strings.HasPrefix(thread(t, "project-项目"), "project-"))
	})
	t.Run("none", func(t *testing.T) {
		_, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "{payload.n}"}).Map(nil, []byte(`{"n":""}`))
		refused(t, err, "event.thread", "is empty")
	})
}

func TestTimestamps(t *testing.T) {
	at := func(value string) (event.EnvEvent, error) {
		e, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "t", Timestamp: "{payload.at}"}).Map(nil, []byte(`{"at":`+value+`}`))
		return e, err
	}
	for value, want := range map[string]int64{
		"0": 0, "1700000000": 1700000000000, "1700000000123": 1700000000123, `"1531420618.250"`: 1531420618250,
		"99999999999": 99999999999000, "100000000000": 100000000000, "253402300799999": 253402300799999,
		`"2023-11-14T22:13:20Z"`: 1700000000000, `"2023-11-14T23:13:20.5+01:00"`: 1700000000500,
	} {
		t.Run(value, func(t *testing.T) {
			e, err := at(value)
			require.NoError(t, err)
			require.Equal(t, want, e.Timestamp)
		})
	}
	for _, value := range []string{`""`, `"now"`, `"NaN"`, `"Inf"`, "-1", "1e300", "253402300800000", `"14.11.2023"`, "true"} {
		t.Run("not "+value, func(t *testing.T) {
			_, err := at(value)
			refused(t, err, "event.timestamp", "is not a time")
		})
	}
}

func TestBodies(t *testing.T) {
	form := url.Values{"payload": {push}}.Encode()
	for _, c := range []struct{ name, contentType, body, want string }{
		{"JSON", "application/json", `{"a": 1.0}`, `{"a": 1.0}`},
		{"JSON without a type", "", `[1]`, `[1]`},
		{"a form with JSON in it", "application/x-www-form-urlencoded", form, push},
		{"JSON as curl -d sends it", "application/x-www-form-urlencoded", `{"a":"b=c&d"}`, `{"a":"b=c&d"}`},
		{"a form", "application/x-www-form-urlencoded; charset=utf-8", "text=hi+there&n=1&n=2", `{"n":["1","2"],"text":"hi there"}`},
		{"a form whose payload is text", "application/x-www-form-urlencoded", "payload=hi", `{"payload":"hi"}`},
		{"text", "text/plain", "disk \"full\"\n", `"disk \"full\"\n"`},
		{"text without a type", "", "disk full", `"disk full"`},
		{"nothing", "", "", "null"},
		{"nothing that is said to be JSON", "application/json", " \n", "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "t"}).
				Map(headers(map[string]string{"Content-Type": c.contentType}), []byte(c.body))
			require.NoError(t, err)
			require.Equal(t, c.want, string(e.Payload))
		})
	}
	for _, c := range []struct{ contentType, body, problem string }{
		{"application/json", `{"a":`, "is not valid JSON"},
		{"application/cloudevents+json; charset=utf-8", "hello", "is not valid JSON"},
		{"application/x-www-form-urlencoded", "a=%zz", "is not a form"},
		{"application/octet-stream", "\xff\xfe", "is neither JSON, nor a form, nor text"},
	} {
		t.Run("not "+c.contentType, func(t *testing.T) {
			_, _, err := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x", Thread: "t"}).
				Map(headers(map[string]string{"Content-Type": c.contentType}), []byte(c.body))
			refused(t, err, "payload", c.problem)
		})
	}
}

func TestChallenge(t *testing.T) {
	const body = `{"token":"x","challenge":"3eZbrw1a","type":"url_verification"}`
	answer, ok := mapped(webhook.SchemeSlack, webhook.Event{}).Challenge(http.Header{}, []byte(body))
	require.True(t, ok)
	require.Equal(t, "3eZbrw1a", answer)
	for name, s := range map[string]struct {
		scheme webhook.Scheme
		body   string
	}{
		"another scheme": {webhook.SchemeGitHub, body},
		"an event":       {webhook.SchemeSlack, `{"type":"event_callback","challenge":"x"}`},
		"text":           {webhook.SchemeSlack, "url_verification"},
		"no text":        {webhook.SchemeSlack, "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := mapped(s.scheme, webhook.Event{}).Challenge(http.Header{}, []byte(s.body))
			require.False(t, ok)
		})
	}
}

// FuzzMap: for any request, threads accept the event that Map returns.
func FuzzMap(f *testing.F) {
	f.Add("application/json", `{"t":"a/b","i":"c.d"}`)
	f.Add("application/x-www-form-urlencoded", "t=%20&i=1")
	f.Add("", `{"t":"\u0000","i":true}`)
	s := mapped(webhook.SchemeHMAC, webhook.Event{Type: "x.{source}", Thread: "{payload.t}", ID: "{payload.i}"})
	f.Fuzz(func(t *testing.T, contentType, body string) {
		e, threadID, err := s.Map(headers(map[string]string{"Content-Type": contentType}), []byte(body))
		if err != nil {
			var wrong *event.FieldError
			require.ErrorAs(t, err, &wrong)
			return
		}
		require.NoError(t, signals.ValidateID("threadId", threadID))
		require.NoError(t, signals.EnvPost(e).Validate(threadID))
	})
}
