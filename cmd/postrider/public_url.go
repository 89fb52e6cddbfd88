package main

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/postrider/postrider/config"
)

// publicURL is where browsers reach a server that listens on at: as it is configured, or else on this machine.
func publicURL(h config.HTTP, at net.Addr) string {
	if h.PublicURL != "" {
		return h.PublicURL
	}
	host, port, err := net.SplitHostPort(h.Addr)
	if err != nil {
		return "http://" + h.Addr
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	if tcp, ok := at.(*net.TCPAddr); ok { // port 0 is any, and `dev` takes another one than is configured
		port = strconv.Itoa(tcp.Port)
	}
	return "http://" + net.JoinHostPort(host, port)
}
