package activities

import (
	"strings"

	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/library/entities"
)

func (cfg Config) newEntities(l *library.Library) *entities.Entities {
	out := entities.Config{Store: cfg.Store, Threads: cfg.Store, Embedder: l.Embedder(), Logger: cfg.Logger}
	if out.Embedder != "" {
		out.Embed = l.Vectors
	}
	if provider, _, _ := strings.Cut(cfg.EntityModel, "/"); provider != "" {
		out.Provider, out.Model = CheckedProvider(cfg.Redact, cfg.Models[provider]), cfg.EntityModel
	}
	return entities.New(out)
}

// WithoutEntities says why no people and things are found in messages. Empty = they are.
func (a *Activities) WithoutEntities() string { return a.entities.Lacks() }
