package recovery

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/threadmill/threadmill/internal/ops/filelock"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
)

const (
	// folderEnv makes the test binary a process with a journal in that folder.
	folderEnv = "THREADMILL_RECOVERY_TEST_FOLDER"
)

// TestMain turns the test binary into a process with tasks, for tests that kill it.
func TestMain(m *testing.M) {
	if folder := os.Getenv(folderEnv); folder != "" {
		j, err := Open(folder, slog.Default())
		if err != nil {
			panic(err)
		}
		j.begin(task{Kind: activityTask, Namespace: "n", Token: []byte("of a process"), Attempt: 1})
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fakeService is Temporal. It answers with errors by the token or queue of a request.
type fakeService struct {
	workflowservice.WorkflowServiceClient

	mu     sync.Mutex
	got    []string
	errors map[string]error
}

func (s *fakeService) answer(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, what)
	return s.errors[what]
}

func (s *fakeService) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.got...)
}

func (s *fakeService) ShutdownWorker(_ context.Context, r *workflowservice.ShutdownWorkerRequest, _ ...grpc.CallOption) (*workflowservice.ShutdownWorkerResponse, error) {
	return nil, s.answer(r.GetNamespace() + " queue " + r.GetStickyTaskQueue())
}

func (s *fakeService) RespondWorkflowTaskFailed(_ context.Context, r *workflowservice.RespondWorkflowTaskFailedRequest, _ ...grpc.CallOption) (*workflowservice.RespondWorkflowTaskFailedResponse, error) {
	return nil, s.answer(r.GetNamespace() + " workflow task " + string(r.GetTaskToken()))
}

func (s *fakeService) RespondActivityTaskFailed(_ context.Context, r *workflowservice.RespondActivityTaskFailedRequest, _ ...grpc.CallOption) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	return nil, s.answer(r.GetNamespace() + " activity " + string(r.GetTaskToken()))
}

func TestRelease(t *testing.T) {
	t.Run("the first attempt at an activity is retried at once", func(t *testing.T) {
		r, ok := task{Kind: activityTask, Namespace: "n", Token: []byte("t"), Attempt: 1}.release().(*workflowservice.RespondActivityTaskFailedRequest)
		require.True(t, ok)
		require.Equal(t, "n t", r.GetNamespace()+" "+string(r.GetTaskToken()))
		info := r.GetFailure().GetApplicationFailureInfo()
		require.Equal(t, step.ErrTypeLost, info.GetType())
		require.False(t, info.GetNonRetryable())
		require.Positive(t, info.GetNextRetryDelay().AsDuration(), "zero would end the retries")
		require.Less(t, info.GetNextRetryDelay().AsDuration(), time.Second)
	})
	t.Run("a later one is retried by its policy", func(t *testing.T) {
		r, ok := task{Kind: activityTask, Token: []byte("t"), Attempt: 2}.release().(*workflowservice.RespondActivityTaskFailedRequest)
		require.True(t, ok)
		require.Nil(t, r.GetFailure().GetApplicationFailureInfo().GetNextRetryDelay())
	})
	t.Run("a workflow task fails", func(t *testing.T) {
		r, ok := task{Kind: workflowTask, Namespace: "n", Token: []byte("t"), Attempt: 1}.release().(*workflowservice.RespondWorkflowTaskFailedRequest)
		require.True(t, ok)
		require.Equal(t, "n t", r.GetNamespace()+" "+string(r.GetTaskToken()))
		require.Equal(t, step.ErrTypeLost, r.GetFailure().GetApplicationFailureInfo().GetType())
	})
	t.Run("a workflow task that is lost again waits for its timeout", func(t *testing.T) {
		require.Nil(t, task{Kind: workflowTask, Token: []byte("t"), Attempt: 2}.release())
	})
	t.Run("a sticky queue is given up", func(t *testing.T) {
		r, ok := task{Kind: stickyQueue, Namespace: "n", Queue: "q"}.release().(*workflowservice.ShutdownWorkerRequest)
		require.True(t, ok)
		require.Equal(t, "n q", r.GetNamespace()+" "+r.GetStickyTaskQueue())
	})
	t.Run("what a later version writes is left alone", func(t *testing.T) {
		require.Nil(t, task{Kind: "update", Token: []byte("t"), Attempt: 1}.release())
	})
}

func open(t *testing.T, folder string, log io.Writer) *Journal {
	t.Helper()
	j, err := Open(folder, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.file.Close() })
	return j
}

// tasks returns what a journal has on disk.
func tasks(t *testing.T, j *Journal) (list []string) {
	t.Helper()
	file, err := os.Open(j.path)
	require.NoError(t, err)
	defer file.Close()
	_, found, err := read(file)
	require.NoError(t, err)
	for _, f := range found {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s%s %d", f.Kind, f.Namespace, f.Token, f.Queue, f.Attempt)))
	}
	return list
}

// call makes a request through the interceptor.
func call(t *testing.T, j *Journal, request, reply any, err error) {
	t.Helper()
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return err }
	require.ErrorIs(t, j.intercept(t.Context(), "", request, reply, nil, invoke), err)
}

func workflowTaskOf(run, token string) *workflowservice.PollWorkflowTaskQueueResponse {
	return &workflowservice.PollWorkflowTaskQueueResponse{TaskToken: []byte(token), Attempt: 1, WorkflowExecution: &commonpb.WorkflowExecution{RunId: run}}
}

func activityOf(token string) *workflowservice.PollActivityTaskQueueResponse {
	return &workflowservice.PollActivityTaskQueueResponse{TaskToken: []byte(token), Attempt: 3}
}

func TestJournal(t *testing.T) {
	j := open(t, t.TempDir(), io.Discard)
	pollWorkflow := &workflowservice.PollWorkflowTaskQueueRequest{Namespace: "n"}
	pollActivity := &workflowservice.PollActivityTaskQueueRequest{Namespace: "n"}

	t.Run("tasks in progress are on disk", func(t *testing.T) {
		call(t, j, pollActivity, activityOf("a1"), nil)
		call(t, j, pollWorkflow, workflowTaskOf("run", "w1"), nil)
		require.Equal(t, []string{"activity n a1 3", "workflow n w1 1"}, tasks(t, j))
	})
	t.Run("an empty poll, a failed one and a query are no tasks", func(t *testing.T) {
		call(t, j, pollActivity, &workflowservice.PollActivityTaskQueueResponse{}, nil)
		call(t, j, pollActivity, activityOf("never arrived"), io.EOF)
		query := workflowTaskOf("run", "q1")
		query.Query = &querypb.WorkflowQuery{}
		call(t, j, pollWorkflow, query, nil)
		require.Equal(t, []string{"activity n a1 3", "workflow n w1 1"}, tasks(t, j))
	})
	t.Run("an answer ends a task and brings others", func(t *testing.T) {
		call(t, j, &workflowservice.RespondWorkflowTaskCompletedRequest{Namespace: "n", TaskToken: []byte("w1")}, &workflowservice.RespondWorkflowTaskCompletedResponse{
			WorkflowTask: workflowTaskOf("run", "w2"), ActivityTasks: []*workflowservice.PollActivityTaskQueueResponse{activityOf("a2")},
		}, nil)
		require.ElementsMatch(t, []string{"activity n a1 3", "workflow n w2 1", "activity n a2 3"}, tasks(t, j))
	})
	t.Run("a run has one workflow task: the earlier one was not answered", func(t *testing.T) {
		call(t, j, pollWorkflow, workflowTaskOf("run", "w3"), nil)
		call(t, j, pollWorkflow, workflowTaskOf("other run", "w4"), nil)
		require.ElementsMatch(t, []string{"activity n a1 3", "workflow n w3 1", "activity n a2 3", "workflow n w4 1"}, tasks(t, j))
	})
	t.Run("each kind of answer ends a task, also one that fails", func(t *testing.T) {
		call(t, j, pollActivity, activityOf("a3"), nil)
		call(t, j, &workflowservice.RespondActivityTaskCompletedRequest{TaskToken: []byte("a1")}, nil, nil)
		call(t, j, &workflowservice.RespondActivityTaskFailedRequest{TaskToken: []byte("a2")}, nil, io.EOF)
		call(t, j, &workflowservice.RespondActivityTaskCanceledRequest{TaskToken: []byte("a3")}, nil, nil)
		call(t, j, &workflowservice.RespondWorkflowTaskFailedRequest{TaskToken: []byte("w3")}, nil, nil)
		call(t, j, &workflowservice.RespondWorkflowTaskCompletedRequest{TaskToken: []byte("w4")}, nil, io.EOF)
		require.Empty(t, tasks(t, j))
	})
	t.Run("nothing remains of what has ended, and slots are used again", func(t *testing.T) {
		before, err := os.ReadFile(j.path)
		require.NoError(t, err)
		require.Empty(t, bytes.Trim(before[slotSize:], "\x00"))
		for range 100 {
			call(t, j, pollActivity, activityOf("a4"), nil)
			call(t, j, &workflowservice.RespondActivityTaskCompletedRequest{TaskToken: []byte("a4")}, nil, nil)
		}
		after, err := os.ReadFile(j.path)
		require.NoError(t, err)
		require.Len(t, after, len(before))
	})
	t.Run("a token that fits no slot is not written", func(t *testing.T) {
		call(t, j, pollActivity, activityOf(strings.Repeat("x", slotSize)), nil)
		require.Empty(t, tasks(t, j))
	})
	t.Run("a sticky queue is there once", func(t *testing.T) {
		sticky := &workflowservice.PollWorkflowTaskQueueRequest{Namespace: "n", TaskQueue: &taskqueuepb.TaskQueue{Name: "cache", Kind: enumspb.TASK_QUEUE_KIND_STICKY}}
		call(t, j, sticky, &workflowservice.PollWorkflowTaskQueueResponse{}, nil)
		call(t, j, sticky, &workflowservice.PollWorkflowTaskQueueResponse{}, nil)
		require.Equal(t, []string{"sticky n cache 0"}, tasks(t, j))
	})
	t.Run("a journal without tasks is removed", func(t *testing.T) {
		require.NoError(t, j.Close())
		require.NoFileExists(t, j.path)
		call(t, j, pollActivity, activityOf("late"), nil)
		require.NoError(t, j.Close(), "twice")
	})
}

func TestCloseWithTasks(t *testing.T) {
	folder := t.TempDir()
	j, err := Open(folder, slog.Default())
	require.NoError(t, err)
	j.begin(task{Kind: activityTask, Token: []byte("t")})
	require.NoError(t, j.Close())
	for range 20 {
		runtime.GC() // it closes files without a reference
	}
	_, err = filelock.Open(journals(t, folder)[0], 0)
	require.ErrorIs(t, err, filelock.ErrHeld, "its step may still run")
}

// abandon makes a journal that of a dead process: the system would close the file.
func abandon(t *testing.T, j *Journal) {
	t.Helper()
	require.NoError(t, j.file.Close())
}

func TestLook(t *testing.T) {
	all := []task{
		{Kind: activityTask, Namespace: "n", Token: []byte("a1"), Attempt: 1},
		{Kind: stickyQueue, Namespace: "n", Queue: "cache"},
		{Kind: workflowTask, Namespace: "n", Token: []byte("w1"), Attempt: 1, run: "1"},
		{Kind: workflowTask, Namespace: "n", Token: []byte("w2"), Attempt: 2, run: "2"},
	}
	dead := func(t *testing.T, folder string) *Journal {
		t.Helper()
		j := open(t, folder, io.Discard)
		for _, one := range all {
			j.begin(one)
		}
		abandon(t, j)
		return j
	}
	t.Run("the tasks of a dead process are freed, its queues first", func(t *testing.T) {
		folder, log, service := t.TempDir(), &bytes.Buffer{}, &fakeService{errors: map[string]error{"n activity a1": serviceerror.NewNotFound("another attempt runs")}}
		d, j := dead(t, folder), open(t, folder, log)
		j.look(t.Context(), service)
		require.ElementsMatch(t, []string{"n queue cache", "n activity a1", "n workflow task w1"}, service.received())
		require.Equal(t, "n queue cache", service.received()[0])
		require.NoFileExists(t, d.path)
		require.Contains(t, log.String(), "activities=0 workflowTasks=1 ended=1 leftToTimeout=1")
		j.look(t.Context(), service)
		require.Len(t, service.received(), 3, "once")
	})
	t.Run("those of a live one are not", func(t *testing.T) {
		folder, service := t.TempDir(), &fakeService{}
		live, j := open(t, folder, io.Discard), open(t, folder, io.Discard)
		live.begin(all[0])
		j.begin(all[2])
		j.look(t.Context(), service)
		require.Empty(t, service.received())
		require.FileExists(t, live.path)
	})
	t.Run("those of another system are not, and tell of its end", func(t *testing.T) {
		folder, service := t.TempDir(), &fakeService{}
		d := dead(t, folder)
		require.False(t, open(t, folder, io.Discard).Crashed(), "only a process was killed")
		if d.head.Boot == "" {
			t.Skip("this system does not tell its boots apart")
		}
		raw, err := os.ReadFile(d.path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(d.path, bytes.Replace(raw, []byte(d.head.Boot), bytes.Repeat([]byte("0"), len(d.head.Boot)), 1), 0o600))
		j := open(t, folder, io.Discard)
		require.True(t, j.Crashed())
		j.look(t.Context(), service)
		require.Empty(t, service.received())
		require.NoFileExists(t, d.path)
		require.False(t, open(t, folder, io.Discard).Crashed())
	})
	t.Run("while Temporal is away, they remain", func(t *testing.T) {
		folder, log, service := t.TempDir(), &bytes.Buffer{}, &fakeService{errors: map[string]error{"n workflow task w1": serviceerror.NewUnavailable("away")}}
		d, j := dead(t, folder), open(t, folder, log)
		j.look(t.Context(), service)
		j.look(t.Context(), service)
		require.FileExists(t, d.path)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log)
		service.errors = nil
		j.look(t.Context(), service)
		require.NoFileExists(t, d.path)
	})
	t.Run("what Temporal rejects is left to the timeout", func(t *testing.T) {
		folder, log, service := t.TempDir(), &bytes.Buffer{}, &fakeService{errors: map[string]error{"n activity a1": serviceerror.NewPermissionDenied("not you", "")}}
		d, j := dead(t, folder), open(t, folder, log)
		j.look(t.Context(), service)
		require.NoFileExists(t, d.path)
		require.Contains(t, log.String(), "not you")
	})
	t.Run("a slot that is not whole is skipped", func(t *testing.T) {
		folder, service := t.TempDir(), &fakeService{}
		d := dead(t, folder)
		file, err := os.OpenFile(d.path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteAt([]byte{0}, slotSize+5)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		open(t, folder, io.Discard).look(t.Context(), service)
		require.ElementsMatch(t, []string{"n queue cache", "n workflow task w1"}, service.received())
	})
	t.Run("other files stay", func(t *testing.T) {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "notes"), nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "empty"+suffix), nil, 0o600))
		open(t, folder, io.Discard).look(t.Context(), &fakeService{})
		require.FileExists(t, filepath.Join(folder, "notes"))
		require.NoFileExists(t, filepath.Join(folder, "empty"+suffix))
	})
}

// TestOpenWhileOthersLook: a journal of a live process is never taken for that of a dead one, from its creation to its removal.
func TestOpenWhileOthersLook(t *testing.T) {
	folder, log := t.TempDir(), &bytes.Buffer{}
	watcher := open(t, folder, log)
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			watcher.look(ctx, &fakeService{})
		}
	})
	for range 2000 {
		j, err := Open(folder, slog.New(slog.DiscardHandler))
		if err == nil {
			err = j.Close()
		}
		if err != nil {
			stop()
			require.NoError(t, err)
		}
	}
	stop()
	looking.Wait()
	require.Empty(t, log.String())
}

// process is the test binary with a journal.
type process struct {
	*exec.Cmd
	t testing.TB
}

func startProcess(t *testing.T, folder string) process {
	t.Helper()
	p := process{exec.Command(os.Args[0]), t}
	p.Env = append(os.Environ(), folderEnv+"="+folder)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	_, err = p.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(p.kill)
	line := make([]byte, len("ready\n"))
	_, err = io.ReadFull(out, line)
	require.NoError(t, err)
	return p
}

func (p process) kill() {
	_ = p.Process.Kill() // it may have ended
	_ = p.Wait()
}

func TestWatch(t *testing.T) {
	folder, service := t.TempDir(), &fakeService{}
	p := startProcess(t, folder)
	require.Len(t, journals(t, folder), 1)
	j := open(t, folder, io.Discard)
	defer j.Watch(service)()
	p.kill()
	require.Eventually(t, func() bool { return len(journals(t, folder)) == 1 }, testenv.Patience, testenv.Tick)
	require.Equal(t, []string{"n activity of a process"}, service.received())
}

func journals(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	require.NoError(t, err)
	return list
}

func TestWithoutJournal(t *testing.T) {
	var none *Journal
	none.Watch(nil)()
	require.NoError(t, none.Close())
}

func BenchmarkTask(b *testing.B) {
	j, err := Open(b.TempDir(), slog.Default())
	require.NoError(b, err)
	token := bytes.Repeat([]byte("t"), 250)
	for b.Loop() {
		j.begin(task{Kind: activityTask, Namespace: "default", Token: token, Attempt: 1})
		j.end(activityTask, token)
	}
}
