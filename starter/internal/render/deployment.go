package render

import (
	"fmt"

	"github.com/threadmill/threadmill/internal/deployment"
)

// Deployment is a Worker Deployment with what runs on its builds.
type Deployment struct {
	deployment.Status

	Running map[string]deployment.Running `json:"running"`
}

// String returns a table of the builds, and what gets new threads.
func (d Deployment) String() string {
	t := &table{head: []string{"BUILD", "STATUS", "THREADS", "PINNED", "OTHERS", "CREATED"}}
	for _, b := range d.Builds {
		status := string(b.Status)
		if b.ID == d.Ramping {
			status = fmt.Sprintf("%s %g%%", status, d.Percent)
		}
		t.row(b.ID, status, fmt.Sprint(d.Running[b.ID].Threads), fmt.Sprint(d.Running[b.ID].Pinned), fmt.Sprint(d.Running[b.ID].Others), day(b.Created))
	}
	out := t.String()
	if d.Current == "" {
		out += "\nno build is current: workers without a build get new threads\n"
	}
	return out
}
