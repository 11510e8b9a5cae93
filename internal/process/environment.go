package process

import "os"

// DefaultEnv names the environment variables that a program sees.
var DefaultEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
}

// Environment returns the variables of [DefaultEnv] and of names that are set, in the form of
// [os.Environ].
func Environment(names ...string) []string {
	var env []string
	for _, list := range [][]string{DefaultEnv, names} {
		for _, name := range list {
			if value, ok := os.LookupEnv(name); ok {
				env = append(env, name+"="+value)
			}
		}
	}
	return env
}
