package server

import (
	"maps"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/event"
)

// schemas are those of all handlers of a process: they follow from types alone, and take most of the time in which a
// handler is made.
var schemas = sync.OnceValue(newSchemas)

func newSchemas() huma.Registry {
	r := huma.NewMapRegistry(schemaPrefix, schemaName)
	// Metadata may contain any names.
	r.RegisterTypeAlias(reflect.TypeFor[event.EnvMetadata](), reflect.TypeFor[map[string]any]())
	return &lockedRegistry{registry: r, described: map[string]bool{}}
}

// lockedRegistry is a registry for concurrent use, whose schemas have descriptions from comments.
type lockedRegistry struct {
	mu        sync.RWMutex
	registry  huma.Registry
	described map[string]bool
}

// Schema implements [huma.Registry].
func (l *lockedRegistry) Schema(t reflect.Type, allowRef bool, hint string) *huma.Schema {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.registry.Schema(t, allowRef, hint)
	// The registry has made schemas of the types within t too.
	if all := l.registry.Map(); len(all) > len(l.described) {
		for name, one := range all {
			if !l.described[name] {
				l.described[name] = true
				describeFields(one, l.registry.TypeFromRef(schemaPrefix+name))
			}
		}
	}
	return s
}

// SchemaFromRef implements [huma.Registry].
func (l *lockedRegistry) SchemaFromRef(ref string) *huma.Schema {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.registry.SchemaFromRef(ref)
}

// TypeFromRef implements [huma.Registry].
func (l *lockedRegistry) TypeFromRef(ref string) reflect.Type {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.registry.TypeFromRef(ref)
}

// Map implements [huma.Registry].
func (l *lockedRegistry) Map() map[string]*huma.Schema {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.registry.Map())
}

// RegisterTypeAlias implements [huma.Registry].
func (l *lockedRegistry) RegisterTypeAlias(t, alias reflect.Type) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registry.RegisterTypeAlias(t, alias)
}
