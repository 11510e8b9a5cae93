package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// supervisorName is argument 0 of a supervisor.
	supervisorName = "threadmill-supervisor"

	// lifelineFD is the first of exec.Cmd.ExtraFiles.
	lifelineFD = 3

	// killPatience is the maximum time until killed processes disappear.
	killPatience = 2 * time.Second

	exitNotStarted = 127
)

// droppedCapabilities would allow a command of a worker that runs as root to read the memory of the
// worker in spite of [Protect].
var droppedCapabilities = []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN, unix.CAP_CHECKPOINT_RESTORE}

// A supervisor needs no separate program on the machine: the worker starts itself again, and this
// package takes over before main.
func init() {
	if len(os.Args) > 2 && os.Args[0] == supervisorName {
		os.Exit(supervise(os.Args[1], os.Args[2:]))
	}
}

// supervise runs a command and returns its exit code when no descendant remains. It stops all
// descendants when the command ends, when it receives a signal, and when the worker ends.
func supervise(graceText string, argv []string) int {
	// The death signal and the capabilities below are properties of this thread.
	runtime.LockOSThread()
	nanoseconds, err := strconv.ParseInt(graceText, 10, 64)
	if err != nil {
		return notStarted(err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return notStarted(err)
	}
	for _, capability := range droppedCapabilities {
		// Only root has these capabilities.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
	}
	stop := sync.OnceFunc(func() { go stopDescendants(time.Duration(nanoseconds)) })
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() { <-signals; stop() }()
	syscall.CloseOnExec(lifelineFD)
	lifeline := os.NewFile(lifelineFD, "lifeline")
	go func() {
		_, _ = lifeline.Read(make([]byte, 1))
		stop()
	}()

	pid, err := startCommand(argv)
	if err != nil {
		return notStarted(err)
	}
	code := exitNotStarted
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no descendant remains
			return code
		case ended == pid:
			code = ExitStatus(status)
			stop()
		}
	}
}

func notStarted(err error) int {
	fmt.Fprintln(os.Stderr, "the command could not be started:", err)
	return exitNotStarted
}

func startCommand(argv []string) (pid int, err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{ //nolint:gosec // running commands is the purpose of the package
		Env:   os.Environ(),
		Files: []uintptr{os.Stdin.Fd(), os.Stdout.Fd(), os.Stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// stopDescendants exits the supervisor if a process cannot be killed.
func stopDescendants(grace time.Duration) {
	signalEach(syscall.SIGTERM, descendants())
	time.Sleep(grace)
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		signalEach(syscall.SIGKILL, descendants())
	}
	os.Exit(128 + int(syscall.SIGKILL))
}

// processStat is a line of /proc/<pid>/stat.
type processStat struct{ pid, parent, session int }

func processList() []processStat {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []processStat
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The program's name is in parentheses and may contain any character.
		s, state, group := processStat{pid: pid}, "", 0
		if _, err := fmt.Sscan(string(line[bytes.LastIndexByte(line, ')')+1:]), &state, &s.parent, &group, &s.session); err == nil {
			list = append(list, s)
		}
	}
	return list
}

func signalEach(sig syscall.Signal, match func(processStat) bool) {
	for _, s := range processList() {
		if match(s) {
			// The process may have ended.
			_ = syscall.Kill(s.pid, sig)
		}
	}
}

// descendants matches all processes below this one.
func descendants() func(processStat) bool {
	parents := map[int]int{}
	for _, s := range processList() {
		parents[s.pid] = s.parent
	}
	self := os.Getpid()
	return func(s processStat) bool {
		for pid := s.parent; pid > 0; pid = parents[pid] {
			if pid == self {
				return true
			}
		}
		return false
	}
}
