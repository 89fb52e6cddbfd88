package pgcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const loopback = "127.0.0.1"

// lowestPort is where we begin to look: above the ports that well-known services have.
const lowestPort = 10240

// settlePort keeps the port that the cluster had if it is free, or if it must; else it picks another and remembers it.
func (f *folder) settlePort(keep bool) error {
	if f.state.Port != 0 && (keep || free(f.state.Port)) {
		return nil
	}
	port, err := pickPort(lowestPort, firstOutgoingPort())
	if err != nil {
		return err
	}
	f.state.Port = port
	return f.writeState()
}

// pickPort gives a free loopback port in [low, high). The kernel hands out the ports from high on to outgoing connections;
// one of those could take the port while the server is restarted.
func pickPort(low, high int) (int, error) {
	for range 100 {
		if port := low + rand.IntN(high-low); free(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port for PostgreSQL: none in 100 tries")
}

func free(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// firstOutgoingPort is the lowest port that the kernel uses for outgoing connections: Linux says it, the others keep to
// IANA's 49152 (RFC 6335, section 6). Where that leaves too little room, all ports are taken to be ours.
func firstOutgoingPort() int {
	first := 49152
	if raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var last int
		if _, err := fmt.Sscan(string(raw), &first, &last); err != nil {
			first = 49152
		}
	}
	if first < lowestPort+1000 {
		return 1 << 16
	}
	return first
}
