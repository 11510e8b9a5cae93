// Package redaction applies a [redact.Redactor] to what threads receive and what hooks return. It knows which fields have text, and
// which have ids, types and names, which remain.
package redaction
