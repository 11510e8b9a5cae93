// Package modellimit computes the rate of the task queue of a limited model provider. Temporal limits
// the number of tasks per second, and one task is one model call; a limit of tokens becomes a limit
// of calls by the tokens that calls have used lately.
package modellimit

const (
	// assumedTokens are the tokens of a call before any call was measured.
	assumedTokens = 2000

	// window is the number of the last reports that are averaged.
	window = 24
)

// Limits are the limits of a provider. Zero = no limit.
type Limits struct {
	RequestsPerMinute int `json:"requestsPerMinute,omitempty"`
	TokensPerMinute   int `json:"tokensPerMinute,omitempty"`
}

// Report is the argument of the update by which workers report to the owner of a limit.
type Report struct {
	// Limits are those in the configuration of the worker. The last report counts.
	Limits Limits `json:"limits"`

	Usage
}

// Usage are the successful calls of a worker since its last report, and their input and output
// tokens.
type Usage struct {
	Requests int `json:"requests,omitempty"`
	Tokens   int `json:"tokens,omitempty"`
}

// State is the state of the owner of a limit.
type State struct {
	Provider  string `json:"provider"`
	TaskQueue string `json:"taskQueue"`
	Limits    Limits `json:"limits"`

	// Recent are the last reports with usage, the newest last.
	Recent []Usage `json:"recent,omitempty"`

	// PerMinute is the rate in force, in calls per minute. Zero = none yet.
	PerMinute float64 `json:"perMinute,omitempty"`
}

// Add adds a report.
func (s *State) Add(r Report) {
	s.Limits = r.Limits
	if r.Requests <= 0 {
		return
	}
	s.Recent = append(s.Recent, r.Usage)
	if len(s.Recent) > window {
		s.Recent = s.Recent[len(s.Recent)-window:]
	}
}

// TokensPerCall returns the average tokens of a call.
func (s *State) TokensPerCall() float64 {
	var sum Usage
	for _, u := range s.Recent {
		sum.Requests += u.Requests
		sum.Tokens += u.Tokens
	}
	if sum.Tokens <= 0 || sum.Requests <= 0 {
		return assumedTokens
	}
	return float64(sum.Tokens) / float64(sum.Requests)
}

// Rate returns the rate at which both limits hold, in calls per minute, and whether it differs from
// the rate in force by more than one percent.
func (s *State) Rate() (perMinute float64, changed bool) {
	perMinute = float64(s.Limits.RequestsPerMinute)
	if s.Limits.TokensPerMinute > 0 {
		byTokens := float64(s.Limits.TokensPerMinute) / s.TokensPerCall()
		if perMinute == 0 || byTokens < perMinute {
			perMinute = byTokens
		}
	}
	return perMinute, perMinute < s.PerMinute*0.99 || perMinute > s.PerMinute*1.01
}

// Step is the input of the activity that sets the rate of a task queue.
type Step struct {
	TaskQueue string  `json:"taskQueue"`
	PerMinute float64 `json:"perMinute"`
	Reason    string  `json:"reason"`
}
