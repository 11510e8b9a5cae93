package recovery

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/threadmill/threadmill/internal/ops/filelock"
)

const (
	// lookEvery is the time between two looks for dead processes.
	lookEvery = time.Second

	// atATime bounds the concurrent requests, and requestWithin each of them.
	atATime       = 8
	requestWithin = 10 * time.Second
)

// Watch frees the tasks of dead processes of the folder until stop is called: immediately, and then those of processes that
// die meanwhile, within about a second.
func (j *Journal) Watch(service workflowservice.WorkflowServiceClient) (stop func()) {
	if j == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			j.look(ctx, service)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// look frees the tasks of the processes that are dead now.
func (j *Journal) look(ctx context.Context, service workflowservice.WorkflowServiceClient) {
	for _, path := range j.others() {
		if err := j.recover(ctx, path, service); err != nil && ctx.Err() == nil {
			j.complain(path, err)
		}
	}
}

// complain logs an error of a path once, as it is tried again every second.
func (j *Journal) complain(path string, err error) {
	if !j.complained[path] {
		j.complained[path] = true
		j.log.Warn("the tasks of a dead worker cannot be freed; it is tried again", "path", path, "error", err)
	}
}

// recover frees the tasks of a journal if its process is dead, and then removes it. It returns an error if another attempt
// may succeed.
func (j *Journal) recover(ctx context.Context, path string, service workflowservice.WorkflowServiceClient) error {
	file, err := filelock.Open(path, 0)
	if errors.Is(err, filelock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if !isAt(file, path) {
		return nil // its process, or another one that looks, has removed it before the lock was free
	}
	h, tasks, err := read(file)
	if err != nil {
		return err
	}
	// After a restart of the system, all tasks have timed out.
	if h.Boot == j.head.Boot {
		f := freeing{service: service, freed: map[string]int{}}
		f.all(ctx, tasks)
		if f.again {
			return f.err
		}
		j.report(path, &f)
	}
	return os.Remove(path)
}

// report logs what was freed, if there was something to free.
func (j *Journal) report(path string, f *freeing) {
	attrs := []any{
		"journal", filepath.Base(path), "activities", f.freed[activityTask], "workflowTasks", f.freed[workflowTask],
		"ended", f.ended, "leftToTimeout", f.left,
	}
	switch {
	case f.err != nil:
		j.log.Warn("not all tasks of a killed worker could be freed: the others continue after their timeouts", append(attrs, "error", f.err)...)
	case f.freed[activityTask]+f.freed[workflowTask]+f.ended+f.left > 0:
		j.log.Warn("freed the tasks of a killed worker", attrs...)
	}
}

// freeing is one attempt at freeing the tasks of a dead process.
type freeing struct {
	service workflowservice.WorkflowServiceClient

	mu sync.Mutex

	// freed counts the freed tasks by kind, ended those whose attempt has ended before, and left those that wait for their
	// timeout.
	freed       map[string]int
	ended, left int

	// err is one of the errors, and again means that another attempt may succeed.
	err   error
	again bool
}

// all frees the tasks, the sticky queues first: what is freed must not wait there.
func (f *freeing) all(ctx context.Context, tasks []task) {
	for _, queues := range []bool{true, false} {
		var group errgroup.Group
		group.SetLimit(atATime)
		for _, t := range tasks {
			if (t.Kind == stickyQueue) == queues {
				group.Go(func() error {
					f.one(ctx, t)
					return nil
				})
			}
		}
		_ = group.Wait() // no error
	}
}

func (f *freeing) one(ctx context.Context, t task) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	var err error
	request := t.release()
	switch request := request.(type) {
	case *workflowservice.ShutdownWorkerRequest:
		_, err = f.service.ShutdownWorker(ctx, request)
	case *workflowservice.RespondWorkflowTaskFailedRequest:
		_, err = f.service.RespondWorkflowTaskFailed(ctx, request)
	case *workflowservice.RespondActivityTaskFailedRequest:
		_, err = f.service.RespondActivityTaskFailed(ctx, request)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	code := serviceerror.ToStatus(err).Code()
	switch {
	case request == nil:
		f.left++
	case err == nil:
		f.freed[t.Kind]++
	case code == codes.NotFound:
		f.ended++
	case t.Kind == stickyQueue && code == codes.Unimplemented:
		// An older server: its threads leave the queue after a timeout of five seconds.
	default:
		f.err = err
		f.again = f.again || transient(code)
	}
}

// transient reports whether a request may succeed later.
func transient(c codes.Code) bool {
	switch c {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled, codes.Aborted:
		return true
	default:
		return false
	}
}
