package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// progressPause is the shortest time between two reports of progress that are shown.
	progressPause = 100 * time.Millisecond

	// maxProgress is the maximum number of reports of a call that are shown.
	maxProgress        = 2000
	maxProgressMessage = 1 << 10
)

// Progress is what a tool of a server reports while it runs.
type Progress struct {
	Message  string  `json:"message,omitempty"`
	Progress float64 `json:"progress"`

	// Total is the value of Progress at the end, if known.
	Total float64 `json:"total,omitempty"`
}

// progress shows the progress of one call.
type progress struct {
	show func(any)

	mu    sync.Mutex
	last  time.Time
	shown int
}

// watchProgress returns the token under which the server reports the progress of a call.
func (s *session) watchProgress(show func(any)) int64 {
	token := s.tokens.Add(1)
	if show != nil {
		s.progress.Store(token, &progress{show: show})
	}
	return token
}

func (s *session) progressed(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	if req.Params == nil {
		return
	}
	token, ok := req.Params.ProgressToken.(float64)
	if !ok {
		return
	}
	if found, ok := s.progress.Load(int64(token)); ok {
		found.(*progress).report(req.Params)
	}
}

// report shows a report, unless another one has just been shown.
func (p *progress) report(params *sdk.ProgressNotificationParams) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.shown >= maxProgress || now.Sub(p.last) < progressPause {
		return
	}
	p.last = now
	p.shown++
	p.show(Progress{Message: clean(params.Message, maxProgressMessage), Progress: params.Progress, Total: params.Total})
}
