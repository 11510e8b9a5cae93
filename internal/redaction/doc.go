// Package redaction applies a [redact.Redactor] to what a thread receives, produces and sends to models. It knows which
// fields have text, and which have ids, types and names, which remain.
package redaction
