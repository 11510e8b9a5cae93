package redaction

import (
	"errors"

	"github.com/threadmill/threadmill/redact"
)

// Text returns an error whose text is redacted, and which still is the error that it was.
func Text(r *redact.Redactor, err error) error {
	if err == nil {
		return nil
	}
	if clean := r.Text(err.Error()); clean != err.Error() {
		return &redactedError{clean, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redactedError) As(target any) bool   { return errors.As(e.err, target) }
