package server

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/store"
)

// pageCursor returns a cursor that says where a page ends. NUL characters, which nothing that is stored has, separate its parts.
func pageCursor(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\x00")))
}

// parsePageCursor returns the parts of a cursor that has a number of them.
func parsePageCursor(cursor string, count int) ([]string, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(raw), "\x00")
	unstorable := func(part string) bool { return !store.Storable(part) }
	return parts, err == nil && len(parts) == count && !slices.ContainsFunc(parts, unstorable)
}
