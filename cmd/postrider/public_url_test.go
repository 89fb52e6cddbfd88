package main

import (
	"net"
	"testing"

	"github.com/postrider/postrider/config"
)

func TestPublicURL(t *testing.T) {
	t.Parallel()
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081}
	for _, c := range []struct {
		set  config.HTTP
		want string
	}{
		{config.HTTP{Addr: "127.0.0.1:8080"}, "http://127.0.0.1:8081"},
		{config.HTTP{Addr: "localhost:0"}, "http://localhost:8081"},
		{config.HTTP{Addr: ":8081"}, "http://127.0.0.1:8081"},
		{config.HTTP{Addr: "0.0.0.0:8081"}, "http://127.0.0.1:8081"},
		{config.HTTP{Addr: "[::]:8081"}, "http://127.0.0.1:8081"},
		{config.HTTP{Addr: "[::1]:8081"}, "http://[::1]:8081"},
		{config.HTTP{Addr: ":8081", PublicURL: "https://hooks.example.com"}, "https://hooks.example.com"},
	} {
		if got := publicURL(c.set, at); got != c.want {
			t.Errorf("%+v: %s, want %s", c.set, got, c.want)
		}
	}
}
