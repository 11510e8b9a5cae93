package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/threadmill/threadmill/auth"
)

// envKey is the variable with the API key.
const envKey = "THREADMILL_API_KEY"

// maxKeyFile is the maximum size of an API key's file, in bytes.
const maxKeyFile = 4 << 10

// apiKey returns the key for the API: from --api-key-file, the variable, or the file of the
// profile. It is empty if there is none. Errors never contain it.
func (c *connection) apiKey() (string, error) {
	if c.keyFile != "" {
		key, err := readKey(c.keyFile)
		if err != nil {
			return "", usagef("--api-key-file: %w", err)
		}
		return key, nil
	}
	if key := strings.TrimSpace(os.Getenv(envKey)); key != "" {
		if _, _, err := auth.ParseToken(key); err != nil {
			return "", usagef("%s: %w", envKey, err)
		}
		return key, nil
	}
	file, err := c.profileKeyFile()
	if err != nil {
		return "", nil //nolint:nilerr // without a folder for configuration there is no such file
	}
	key, err := readKey(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", usagef("API key of the profile: %w", err)
	}
	return key, nil
}

// profileKeyFile returns the path of the profile's key.
func (c *connection) profileKeyFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	profile := cmp.Or(c.profile, os.Getenv("TEMPORAL_PROFILE"), "default")
	if profile != filepath.Base(profile) {
		return "", fmt.Errorf("profile %q is not the name of a file", profile)
	}
	return filepath.Join(dir, "threadmill", profile+".key"), nil
}

// readKey reads a file that only its owner may read.
func readKey(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others (%04o): run chmod 600 %[1]s", name, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if _, _, err := auth.ParseToken(key); err != nil {
		return "", fmt.Errorf("what stands in %s %w", name, err)
	}
	return key, nil
}

// apiActor returns the actor for the API: empty if the API key names the actor.
func (a *app) apiActor(flag string) (string, error) {
	key, err := a.flags.apiKey()
	if err != nil {
		return "", err
	}
	if key != "" {
		return flag, nil
	}
	return actor(flag)
}
