package render

import (
	"strings"
	"time"

	"github.com/threadmill/threadmill/auth"
)

// Keys returns a table of API keys.
func Keys(keys []auth.APIKey) string {
	t := &table{head: []string{"NAME", "ID", "ROLES", "SOURCE", "CREATED", "BY", "EXPIRES", "ROTATED", "REVOKED"}, rare: []string{"EXPIRES", "ROTATED", "REVOKED"}}
	for _, k := range keys {
		t.row(k.Name, k.ID, strings.Join(k.Roles, ","), k.Source, day(k.CreatedAt), k.CreatedBy, day(k.ExpiresAt), day(k.RotatedAt), day(k.RevokedAt))
	}
	return t.String()
}

func day(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.DateOnly)
}
