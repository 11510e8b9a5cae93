package workflows

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/threadmill/threadmill/internal/thread"
)

// keptGroups is the number of groups of which a worker knows the steps.
const keptGroups = 1000

// paces contains the last steps of the threads of a worker, so that a new thread need not find out which are quick.
// It differs between workers, so a thread reads it in side effects only.
type paces struct {
	mu      sync.Mutex
	byGroup *simplelru.LRU[group, *thread.Pace]
}

// group identifies threads that probably have the same steps: those of a namespace with the same agents.
type group struct{ namespace, agents string }

func groupOf(s *thread.State) group {
	return group{s.Namespace, strings.Join(s.Roster.Agents, "\n")}
}

// took notes the duration of a step, as [thread.Pace.Took] does.
func (p *paces) took(of group, kind string, ms int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byGroup == nil {
		p.byGroup, _ = simplelru.NewLRU[group, *thread.Pace](keptGroups, nil) // it fails without a size only
	}
	pace, ok := p.byGroup.Get(of)
	if !ok {
		pace = &thread.Pace{}
		p.byGroup.Add(of, pace)
	}
	pace.Took(kind, ms)
}

// quick returns the steps of a group that are quick.
func (p *paces) quick(of group) []thread.Paced {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byGroup == nil {
		return nil
	}
	pace, ok := p.byGroup.Get(of)
	if !ok {
		return nil
	}
	return pace.QuickSteps()
}
