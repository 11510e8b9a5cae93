// Package events tests the events of the world of threads: rules, hooks, queues, schedules, and who receives them.
package events

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
