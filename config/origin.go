package config

import "fmt"

// Source is the layer that a value comes from.
type Source string

// The layers, weakest first.
const (
	SourceDefault Source = "default"
	SourceFile    Source = "file"
	SourceEnv     Source = "env"
	SourceFlag    Source = "flag"
)

// origin is where a value comes from. It never holds the value.
type origin struct {
	source Source
	place  string // postrider.yaml:12, POSTRIDER_HTTP_ADDR or --http.addr
}

// Source tells which layer the value of a key such as "http.addr" comes from.
func (c *Config) Source(key string) Source {
	return c.origin(key).source
}

func (c *Config) origin(key string) origin {
	if o, ok := c.origins[key]; ok {
		return o
	}
	return origin{source: SourceDefault}
}

// Fault is a fault that somebody else found in a key's value. detail must not hold a secret.
func (c *Config) Fault(key, detail string) Fault { return c.fault(key, "%s", detail) }

// fault makes a fault of a key's value and says where the value comes from.
func (c *Config) fault(key, format string, args ...any) Fault {
	return Fault{Key: key, Detail: fmt.Sprintf(format, args...), From: c.origin(key).place}
}
