package threadmill

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

// background is what [Runtime.Start] has started.
type background struct {
	mu     sync.Mutex
	cancel context.CancelFunc

	// ended is closed when the workers have ended, with err.
	ended chan struct{}
	err   error

	// close closes the runtime's own client of Temporal; nil = it has none.
	close func()
}

// dial sets the client of the environment, which connects when it is first used.
func (cfg *Config) dial() error {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	options.Namespace = cmp.Or(cfg.TemporalNamespace, options.Namespace)
	cfg.TemporalNamespace = options.Namespace
	options.Logger = sdklog.NewStructuredLogger(cfg.Logger)
	cfg.Temporal, err = client.NewLazyClient(options)
	return err
}

// Start runs the workers in the background, as [Runtime.Run] does, and returns when they wait for work. The error says why they do not;
// ctx bounds only the wait. A Runtime is started once: after [Runtime.Stop], make another one.
func (r *Runtime) Start(ctx context.Context) error {
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.background.mu.Lock()
	if r.background.cancel != nil {
		r.background.mu.Unlock()
		cancel()
		return errors.New("threadmill: the runtime was started before")
	}
	r.background.cancel = cancel
	r.background.mu.Unlock()
	started := make(chan struct{})
	go func() {
		defer close(r.background.ended)
		r.background.err = r.run(working, sync.OnceFunc(func() { close(started) }))
		if r.background.err != nil {
			r.cfg.Logger.Error("the workers ended", "error", r.background.err)
		}
	}()
	select {
	case <-started:
		return nil
	case <-r.background.ended:
		return r.background.err
	case <-ctx.Done():
		cancel()
		<-r.background.ended
		return errors.Join(ctx.Err(), r.background.err)
	}
}

// Stop ends what [Runtime.Start] has started: it waits up to [Config].StopTimeout for running steps, and then closes a client of Temporal
// that is the runtime's own. If ctx ends before, the steps go on to their end, and Stop can be called again. Otherwise the error is that with
// which the workers ended, which may have been before.
func (r *Runtime) Stop(ctx context.Context) (err error) {
	r.background.mu.Lock()
	cancel := r.background.cancel
	r.background.mu.Unlock()
	if cancel != nil {
		cancel()
		select {
		case <-r.background.ended:
			err = r.background.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.background.close != nil {
		r.background.close()
	}
	return err
}

// Stopped returns a channel that is closed when the workers of [Runtime.Start] have ended: after [Runtime.Stop], or because they failed.
func (r *Runtime) Stopped() <-chan struct{} { return r.background.ended }
