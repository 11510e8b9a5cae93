package publicnet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControl(t *testing.T) {
	t.Parallel()
	control := Control("guests")
	for _, address := range []string{
		"127.0.0.1:80", "10.1.2.3:80", "192.168.0.1:80", "172.16.0.1:80", "169.254.169.254:80", "100.64.0.1:80", "0.0.0.0:80", "224.0.0.1:80",
		"255.255.255.255:80", "[::1]:80", "[::]:80", "[fe80::1%eth0]:80", "[fd00::1]:80", "[::ffff:127.0.0.1]:80", "[64:ff9b::a00:1]:80", "[2002:a00:1::]:80", "example.com:80",
	} {
		require.Error(t, control(t.Context(), "tcp", address, nil), address)
	}
	for _, address := range []string{"1.1.1.1:443", "93.184.216.34:80", "[2606:4700::1111]:443"} {
		require.NoError(t, control(t.Context(), "tcp", address, nil), address)
	}
	require.EqualError(t, control(t.Context(), "tcp", "10.0.0.1:1", nil), "10.0.0.1 is an address of a private network, which guests must not use")
}
