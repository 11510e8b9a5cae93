// Package webhook converts signed requests of other systems to environment events.
//
// An [Endpoint] describes how the requests of one system are signed and how they become events.
// [Endpoint.Verify] and [Endpoint.Map] handle one request and have no side effects: the HTTP API,
// which serves POST /v1/webhooks/<name>, posts the events that they return.
//
//	github := webhook.Endpoint{
//		Name:      "github",
//		Signature: webhook.Signature{Scheme: webhook.SchemeGitHub},
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
//   - {source} is the name of the endpoint;
//   - {header.X-GitHub-Event} is a header of the request;
//   - {payload.commits.0.id} is a value in the body, by its dotted path: a string, a number or a
//     boolean.
//
// A field that is missing in the request is an error that names it: with an empty value instead,
// the event might reach the wrong thread. Only a title may lack its fields.
//
// # Bodies
//
// A JSON body is used as it is. A form is an object of its fields or, if it has a field "payload"
// with JSON, as the forms of GitHub and Slack do, that JSON. Any other text is a JSON string, and
// an empty body is null.
//
// # Ids
//
// Events are idempotent by id: duplicate deliveries are ignored. By default the id is the sender's:
// X-GitHub-Delivery, the id of Stripe's event, or Slack's event_id. Without one, it is derived from
// the endpoint's name and the body. An id that is not a valid event id is replaced by a UUID
// derived from it.
//
// A thread id keeps letters, digits and . _ : @ -; every other character becomes "-", and
// characters before the first letter or digit are removed. So "a/b" and "a-b" are the same thread.
// If the text is longer than 128 bytes or not printable ASCII, the id is its beginning followed by
// a UUID derived from all of it, so that different texts remain different.
package webhook
