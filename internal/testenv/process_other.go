//go:build !unix

package testenv

import (
	"fmt"
	"os/exec"
)

func detach(*exec.Cmd) error { return nil }

func privateDir(string) (string, error) {
	return "", fmt.Errorf("servers are started on Unix only: %w", errAbsent)
}
