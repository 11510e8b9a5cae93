package workflows

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/threadmill/threadmill/internal/thread"
)

// keptPaces is the number of kinds of similar threads whose steps a worker knows.
const keptPaces = 1000

// paces contains the last steps of the threads of a worker, so that a new thread need not find out which are quick.
// It differs between workers, so a thread reads it in side effects only.
type paces struct {
	mu     sync.Mutex
	bySort *simplelru.LRU[similar, *thread.Pace]
}

// similar identifies threads that probably have the same steps: those of a namespace that began with the same agents.
type similar struct{ namespace, agents string }

func similarTo(s *thread.State) similar {
	return similar{s.Namespace, strings.Join(s.Roster.Agents, "\n")}
}

// took notes the duration of a step, as [thread.Pace.Took] does.
func (p *paces) took(of similar, kind string, ms int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bySort == nil {
		p.bySort, _ = simplelru.NewLRU[similar, *thread.Pace](keptPaces, nil) // it fails without a size only
	}
	pace, ok := p.bySort.Get(of)
	if !ok {
		pace = &thread.Pace{}
		p.bySort.Add(of, pace)
	}
	pace.Took(kind, ms)
}

// quick returns the steps of similar threads that are quick.
func (p *paces) quick(of similar) []thread.Paced {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bySort == nil {
		return nil
	}
	pace, ok := p.bySort.Get(of)
	if !ok {
		return nil
	}
	return pace.QuickSteps()
}
