package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/internal/repair"
)

// Repair returns what differs between the store and Temporal, and what became of it.
func Repair(report repair.Comparison, applied bool) string {
	var out strings.Builder
	count := map[repair.State]int{}
	for _, t := range report.Threads {
		fmt.Fprintf(&out, "%s", visible(t.ThreadID))
		if t.Title != "" {
			fmt.Fprintf(&out, "  %s", visible(oneLine(t.Title)))
		}
		out.WriteString("\n")
		for _, d := range t.Differences {
			count[d.State]++
			fmt.Fprintf(&out, "  %-10s %s\n", visible(string(d.State)), visible(oneLine(d.Detail)))
			if d.Action != "" {
				fmt.Fprintf(&out, "  %10s → %s\n", "", visible(oneLine(d.Action)))
			}
			if d.Error != "" {
				fmt.Fprintf(&out, "  %10s %s\n", "", visible(oneLine(d.Error)))
			}
		}
	}
	for _, note := range report.Notes {
		fmt.Fprintf(&out, "%s\n", visible(oneLine(note)))
	}
	if len(report.Threads) > 0 {
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "%d threads compared, %d differ: %d mended, %d to mend, %d failed, %d lost\n",
		report.Compared, len(report.Threads), count[repair.Mended], count[repair.Found], count[repair.Failed], count[repair.Unmendable])
	if count[repair.Found] > 0 && !applied {
		out.WriteString("Mend them with: starter repair --apply\n")
	}
	return out.String()
}

// Retention returns what the retention would delete, and what it has deleted.
func Retention(due repair.Due) string {
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
