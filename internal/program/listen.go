package program

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen listens on the value of a flag. The error names the flag.
func Listen(flag, addr string) (net.Listener, error) {
	if err := ValidateAddr(flag, addr); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, Taken(flag, addr, err)
	}
	return l, nil
}

// ValidateAddr reports whether the value of a flag can be an address.
func ValidateAddr(flag, addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return Usagef("--%s: %q is not host:port, such as 127.0.0.1:8080", flag, addr)
	}
	return nil
}

// Taken returns the error for an address of a flag that is in use or not available.
func Taken(flag, addr string, err error) error {
	// The messages of libraries repeat the address.
	var cause syscall.Errno
	if errors.As(err, &cause) {
		err = cause
	}
	return fmt.Errorf("--%s: cannot listen on %s: %w; stop what runs there, or choose another address with --%[1]s", flag, addr, err)
}
