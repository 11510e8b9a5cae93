//go:build unix

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// detach gives a command its own process group, so that an interrupt at the terminal leaves the
// cleanup to it, and a user other than root, since PostgreSQL refuses to run as root.
func detach(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}

// privateDir makes a temporary folder that belongs to the user of [detach].
func privateDir(prefix string) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil || os.Geteuid() != 0 {
		return dir, err
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return "", err
	}
	return dir, os.Chown(dir, uid, gid)
}

func unprivileged() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, lookupErr := user.Lookup(name)
		if lookupErr != nil {
			continue
		}
		if uid, err = strconv.Atoi(u.Uid); err != nil {
			return 0, 0, err
		}
		gid, err = strconv.Atoi(u.Gid)
		return uid, gid, err
	}
	return 0, 0, fmt.Errorf("running as root, and there is no user postgres or nobody to run servers as: %w", errAbsent)
}
