package threadmill

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/internal/names"
)

// serverTools returns patterns for the tools of the source's servers. A source that does not say which
// servers it has may have any.
func (cfg *Config) serverTools() []string {
	if cfg.ToolSource == nil {
		return nil
	}
	known, ok := cfg.ToolSource.(interface{ ServerNames() []string })
	if !ok {
		return []string{names.AnyServer}
	}
	var patterns []string
	for _, server := range known.ServerNames() {
		patterns = append(patterns, event.ToolPattern(server))
	}
	if d, ok := cfg.ToolSource.(interface{ Declared() *toolserver.Registry }); ok && d.Declared() != nil && d.Declared().Permitted().Servers {
		patterns = append(patterns, names.AnyServer)
	}
	return patterns
}

// runTools runs the source of tools, if it runs, until the returned function is called.
func (r *Runtime) runTools(ctx context.Context) (stop func()) {
	source, ok := r.cfg.ToolSource.(interface{ Run(context.Context) error })
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := source.Run(ctx); err != nil {
			r.cfg.Logger.Error("the source of tools has stopped: calls of its tools fail", "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
