// Package traceparent reads trace contexts in the form of the header traceparent of the W3C.
package traceparent

import (
	"fmt"
	"regexp"
	"strconv"
)

// maxLen bounds the length of a trace context of a later version, in bytes.
const maxLen = 256

var form = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

const (
	version00 = "00"
	invalid   = "ff"

	// knownFlags are those of version 00: sampled and random.
	knownFlags = 3

	noTrace = "00000000000000000000000000000000"
	noSpan  = "0000000000000000"
)

// Parse returns a trace context as one of version 00, and reports whether it is one. A later version is read as far
// as version 00 goes, and its further fields are ignored.
func Parse(value string) (as00 string, ok bool) {
	if len(value) > maxLen {
		return "", false
	}
	m := form.FindStringSubmatch(value)
	if m == nil || m[1] == invalid || m[2] == noTrace || m[3] == noSpan || m[1] == version00 && m[5] != "" {
		return "", false
	}
	flags, _ := strconv.ParseUint(m[4], 16, 8) // two digits
	return fmt.Sprintf("%s-%s-%s-%02x", version00, m[2], m[3], flags&knownFlags), true
}
