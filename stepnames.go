package threadmill

import (
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
)

// stepNames registers the activities of local steps under the names by which Temporal's Web UI shows them, when threads first use
// them: there are as many as agents with their models and tools.
type stepNames struct {
	functions map[string]any // by type

	mu         sync.Mutex
	types      map[string]string // by name
	registries []worker.Registry
}

// register adds a worker.
func (s *stepNames) register(w worker.Registry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registries = append(s.registries, w)
	for name, typ := range s.types {
		s.add(w, typ, name)
	}
}

// name adds a name of an activity.
func (s *stepNames) name(typ, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.types[name]; known {
		return
	}
	s.types[name] = typ
	for _, w := range s.registries {
		s.add(w, typ, name)
	}
}

func (s *stepNames) add(w worker.Registry, typ, name string) {
	if f := s.functions[typ]; f != nil {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name, DisableAlreadyRegisteredCheck: true})
	}
}
