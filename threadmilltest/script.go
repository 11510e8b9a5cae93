package threadmilltest

import (
	"slices"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
)

// scriptName is the name of the provider that follows the script.
const scriptName = "scripted"

// Scripted returns the configuration with a scripted model in place of all models. Each agent is asked
// under its own name, so that replies can be [scripted.Reply.For] an agent. Nothing generates titles.
// Agents of an AgentSource, and those that are stored at run time, keep their models.
func Scripted(cfg threadmill.Config, model *scripted.Model) threadmill.Config {
	cfg.Models = map[string]llm.Provider{scriptName: model}
	cfg.Fallbacks, cfg.ModelLimits, cfg.TitleModel = nil, nil, ""
	cfg.Agents = slices.Clone(cfg.Agents)
	for i := range cfg.Agents {
		cfg.Agents[i].Model = scriptName + "/" + cfg.Agents[i].Name
	}
	return cfg
}

// follow makes the test fail if a model of the configuration is scripted and is asked for something
// else, and if the test ends well without all of the script.
func (r *Runtime) follow() {
	for _, m := range r.world.cfg.Models {
		model, ok := m.(*scripted.Model)
		if !ok {
			continue
		}
		model.OnMismatch(func(err error) { r.log.errorf("%v", err) })
		r.t.Cleanup(func() {
			if left := model.Left(); len(left) > 0 && !r.t.Failed() {
				r.t.Errorf("nobody has asked for these replies of the script:\n%s", lines(left))
			}
		})
	}
}
