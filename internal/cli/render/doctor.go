package render

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/ops/doctor"
)

// Findings renders what the checks of an installation have found, each with its advice below, and a summary.
func Findings(findings []doctor.Finding) string {
	var out strings.Builder
	count := map[doctor.Status]int{}
	for _, f := range findings {
		count[f.Status]++
		fmt.Fprintf(&out, "%-8s %-17s %s\n", visible(string(f.Status)), visible(f.Check), oneLine(f.Detail))
		if f.Advice != "" {
			fmt.Fprintf(&out, "%26s → %s\n", "", oneLine(f.Advice))
		}
	}
	fmt.Fprintf(&out, "\n%d failed, %d warnings, %d ok\n", count[doctor.Failed], count[doctor.Warning], count[doctor.OK])
	return out.String()
}
