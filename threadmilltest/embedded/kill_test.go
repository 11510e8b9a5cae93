package embedded

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

const childDirEnv = "THREADMILL_EMBEDDED_TEST_DIR"

// TestMain turns the test binary into the server process that TestKill kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirEnv); dir != "" {
		serveUntilKilled(dir)
	}
	os.Exit(m.Run())
}

func serveUntilKilled(dir string) {
	srv, err := Start(context.Background(), Config{DataDir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("addr", srv.Addr())
	select {}
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childDirEnv+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "addr ")
	require.True(t, ok, line)

	_, err = Start(t.Context(), Config{DataDir: dir, Addr: "127.0.0.1:0"})
	require.ErrorIs(t, err, ErrDataDirInUse, "the folder belongs to another process")

	const workflows = 20
	before := dial(t, &Server{addr: addr, namespace: DefaultNamespace})
	for i := range workflows {
		_, err := before.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			ID: fmt.Sprint("survivor-", i), TaskQueue: queue,
		}, greet, "you")
		require.NoError(t, err)
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())

	srv := startServer(t, Config{DataDir: dir})
	c := dial(t, srv)
	startWorker(t, c)
	for i := range workflows {
		var got string
		require.NoError(t, c.GetWorkflow(t.Context(), fmt.Sprint("survivor-", i), "").Get(t.Context(), &got))
		require.Equal(t, "hello you", got)
	}
}
