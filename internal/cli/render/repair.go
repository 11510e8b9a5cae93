package render

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/ops/repair"
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
	fmt.Fprintf(&out, "threads compared: %d, differ: %d; differences mended: %d, to mend: %d, failed: %d, lost: %d\n",
		report.Compared, len(report.Threads), count[repair.Mended], count[repair.Found], count[repair.Failed], count[repair.Unmendable])
	if count[repair.Found] > 0 && !applied {
		out.WriteString("Mend them with: starter repair --apply\n")
	}
	return out.String()
}
