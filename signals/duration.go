package signals

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that is a string in JSON: "90s", "15m", "1h30m".
type Duration time.Duration

// String returns the shortest form, without trailing zero units.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText returns the duration in the form of [Duration.String].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration does, and no text as 0.
func (d *Duration) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.64q is not a duration such as 90s, 15m or 1h30m", text)
	}
	*d = Duration(parsed)
	return nil
}
