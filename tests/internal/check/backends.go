package check

import (
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Backends are the combinations of store and stream for all scenarios.
var Backends = []struct {
	Name    string
	Options harness.Options
}{
	{"sqlite and memory", harness.Options{}},
	{"postgres and nats", harness.Options{Postgres: true, NATS: true}},
	{"sqlite and nats", harness.Options{NATS: true}},
	{"postgres and memory", harness.Options{Postgres: true}},
}
