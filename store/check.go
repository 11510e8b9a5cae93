package store

import (
	"errors"
	"math"
	"strings"
	"unicode/utf8"
)

// ErrInvalid matches the error for data or a key that no driver can store. A retry cannot help.
var ErrInvalid = errors.New("cannot be stored")

// Storable reports whether s can be an identifier in every driver: it is valid UTF-8 without NUL
// characters.
func Storable(s string) bool {
	return utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// WithDefaults returns the query with its default limits.
func (q Query) WithDefaults() Query {
	if q.Limit <= 0 || q.Limit > MaxLimit {
		q.Limit = MaxLimit
	}
	if q.Before <= 0 {
		q.Before = math.MaxInt64
	}
	return q
}

// Limits of [ThreadPage.Limit].
const (
	DefaultThreads = 50
	MaxThreads     = 200
)
