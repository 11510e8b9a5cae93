package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/internal/text/excerpt"
)

const (
	separator   = "__"
	maxToolName = 64
	hashLength  = 8
	maxOwnName  = 200
)

var unusable = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// names gives the tools of a server names for agents and models.
type names struct {
	server string

	// taken contains names in lower case: approvals do not tell them apart by case.
	taken map[string]bool
}

func newNames(server string) *names { return &names{server, map[string]bool{}} }

// of returns the name of a tool: server__tool if that is a valid name that no other tool has, and otherwise a
// name with a hash of the tool's own name. It is empty if that is taken, too.
func (n *names) of(own string) string {
	prefix := n.server + separator
	plain := prefix + unusable.ReplaceAllString(own, "_")
	if plain == prefix+own && len(plain) <= maxToolName && n.take(plain) {
		return plain
	}
	sum := sha256.Sum256([]byte(own))
	hash := "_" + hex.EncodeToString(sum[:])[:hashLength]
	if name := excerpt.Start(plain, maxToolName-len(hash)) + hash; n.take(name) {
		return name
	}
	return ""
}

func (n *names) take(name string) bool {
	low := strings.ToLower(name)
	if n.taken[low] {
		return false
	}
	n.taken[low] = true
	return true
}

// matches reports whether one of patterns, names or server__*, stands for a tool.
func matches(patterns []string, name string) bool {
	server, _, _ := strings.Cut(name, separator)
	for _, p := range patterns {
		if p == name || p == server+separator+"*" {
			return true
		}
	}
	return false
}
