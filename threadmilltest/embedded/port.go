package embedded

import (
	"fmt"
	"net"
	"runtime"
	"strconv"
)

// frontendPort returns the configured port for the frontend, if it is free, or a free one for 0.
func frontendPort(ip string, port int, addr string) (int, error) {
	if port == 0 {
		ports, err := freePorts(ip, 1)
		if err != nil {
			return 0, &PortError{Field: "Addr", Addr: addr, Err: err}
		}
		return ports[0], nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return 0, &PortError{Field: "Addr", Addr: addr, Err: portCause(err)}
	}
	return port, l.Close()
}

// freePorts returns n different free ports of ip that stay free until they are bound by number.
func freePorts(ip string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port on %s: %w", ip, portCause(err))
		}
		defer l.Close()
		if err := reserve(l); err != nil {
			return nil, fmt.Errorf("reserve a free port on %s: %w", ip, err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// reserve leaves a connection in TIME_WAIT on the listener's port. The kernel then assigns the port
// to no other listener, while binding it by number still works; the Temporal services accept only
// port numbers, so another server could otherwise take the port in between. Systems other than
// Linux assign ports in sequence and do not need this.
func reserve(l net.Listener) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	accepted, err := l.Accept()
	if err != nil {
		_ = dialed.Close()
		return err
	}
	// The side that closes first waits.
	if err := accepted.Close(); err != nil {
		_ = dialed.Close()
		return err
	}
	return dialed.Close()
}

// portCause removes net's wrapping, which repeats the address.
func portCause(err error) error {
	if op, ok := err.(*net.OpError); ok && op.Err != nil { //nolint:errorlint // only the outermost layer is removed
		return op.Err
	}
	return err
}
