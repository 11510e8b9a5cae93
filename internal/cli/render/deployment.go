package render

import (
	"fmt"

	"github.com/threadmill/threadmill/internal/ops/deployment"
)

// Deployment is a Worker Deployment with what runs on its builds.
type Deployment struct {
	deployment.Status

	Running map[string]deployment.Running `json:"running"`
}

// String returns a table of the builds, and what gets new threads.
func (d Deployment) String() string {
	t := &table{head: []string{"BUILD", "STATUS", "WORKERS", "THREADS", "PINNED", "OTHERS", "CREATED"}}
	for _, b := range d.Builds {
		status := string(b.Status)
		if b.ID == d.Ramping {
			status = fmt.Sprintf("%s %g%%", status, d.Percent)
		}
		workers := "none"
		if b.Workers {
			workers = "yes"
		}
		t.row(b.ID, status, workers, fmt.Sprint(d.Running[b.ID].Threads), fmt.Sprint(d.Running[b.ID].Pinned), fmt.Sprint(d.Running[b.ID].Others), day(b.Created))
	}
	out := t.String()
	for _, b := range d.Builds {
		if b.Waiting > 0 {
			out += fmt.Sprintf("\n%d threads wait on build %s, which has no workers: start one%s\n", b.Waiting, b.ID, d.OrMove(b.ID))
		}
	}
	if d.Current == "" {
		out += "\nno build is current: workers without a build get new threads\n"
	}
	return out
}
