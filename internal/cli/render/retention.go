package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/internal/ops/retention"
)

// Retention returns what the retention would delete, and what it has deleted.
func Retention(due retention.Due) string {
	var out strings.Builder
	if !due.Enabled {
		out.WriteString("Everything is kept for ever.\n")
	}
	list := func(age, what, done string, ids []string) {
		if age == "" {
			return
		}
		fmt.Fprintf(&out, "%s threads older than %s: %d would be %s\n", what, visible(age), len(ids), done)
		for i, id := range ids {
			if i == maxListed {
				fmt.Fprintf(&out, "  and %d more; --json lists them\n", len(ids)-i)
				break
			}
			fmt.Fprintf(&out, "  %s\n", visible(id))
		}
	}
	list(due.IdleThreads, "idle", "closed", due.Close)
	list(due.ClosedThreads, "closed", "erased", due.Erase)
	if due.ToolLogAge != "" {
		fmt.Fprintf(&out, "logs of tool calls older than %s: %d would be deleted\n", visible(due.ToolLogAge), due.ToolLogs)
	}
	if l := due.Last; l != nil {
		fmt.Fprintf(&out, "last pass, %s: %d closed, %d erased with %d records, %d logs deleted, %d failed\n",
			l.FinishedAt.Format(time.RFC3339), l.Closed, l.Erased, l.Contents.Records, l.ToolLogs, l.Failed)
	}
	return out.String()
}

// maxListed is the number of threads that are listed.
const maxListed = 20
