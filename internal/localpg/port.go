package localpg

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken below the range from which systems give ports to outgoing
// connections (Linux 32768, macOS 49152): a server that is stopped and started
// again must find its port still free.
const lowestPort, highestPort = 10000, 32000

// FreePort gives a port of 127.0.0.1 on which nothing listens. Another process
// may take it before it is used: callers try again with another one.
func FreePort() (int, error) {
	const tries = 100
	for range tries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("release port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: %d tries between %d and %d failed", tries, lowestPort, highestPort)
}
