// Package webhook turns signed requests of other systems into environment events.
//
// A [Source] says how the requests of one system are signed, and what becomes an event of
// them. [Source.Verify] and [Source.Map] decide on one request and do nothing else: the
// HTTP API, which serves POST /v1/webhooks/<name>, publishes what they return.
//
//	github := webhook.Source{
//		Name:      "github",
//		Signature: webhook.Signature{Scheme: webhook.GitHub},
//		Secrets:   []webhook.Secret{webhook.Secret(os.Getenv("GITHUB_WEBHOOK_SECRET"))},
//		Event: webhook.Event{
//			Type:   "github.{header.X-GitHub-Event}",
//			Thread: "{payload.repository.full_name}",
//			Open:   true,
//		},
//	}
//
// # Templates
//
// The fields of [Event] are templates: text with fields in braces.
//
//   - {source} is the name of the source;
//   - {header.X-GitHub-Event} is a header of the request;
//   - {payload.commits.0.id} is a value of the body, by its path with dots: a text, a number
//     or a boolean.
//
// A field that the request does not have is an error which names it. Nothing is left empty
// instead, since what is mapped by half would reach the wrong thread.
//
// # Bodies
//
// A body of JSON is taken as it is. A form is an object of its fields, or, if it has a
// field "payload" with JSON in it, as the forms of GitHub and Slack do, that JSON. Any
// other text is a JSON string, and an empty body is null.
//
// # Ids
//
// The id of an event makes it idempotent: what is delivered twice has the effect of once.
// By default it is the one that the sender gives: X-GitHub-Delivery, the id of Stripe's
// event, the event_id of Slack's. Without one it is derived from source and body. An id
// that no event can have is replaced by a UUID that is derived from it.
//
// The id of a thread keeps letters, digits and . _ : @ - as they are; each other character
// becomes a "-", and those before the first letter or digit go. So "a/b" and "a-b" are the
// same thread. Of a text that is longer than 128 bytes or not printable ASCII, which may
// lose all that tells it from others, the beginning is kept, with a UUID behind it that is
// derived from the whole.
package webhook
