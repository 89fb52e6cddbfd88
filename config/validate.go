package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/duration"
)

// Need is something that a command cannot do without.
type Need int

// What a command may need.
const (
	NeedDatabase Need = iota + 1 // database.url
	NeedSecrets                  // secrets.keys, or a secrets.key_file that can be read
	NeedSession                  // database.url, and database.direct_url behind a pooler
)

// Validate judges each value and how they fit together. Which of the keys without a default have to be set depends on the
// command, which says so by need. The error is an *Error, with a line for each fault.
func (c *Config) Validate(need ...Need) error {
	var found faults
	for _, k := range keys {
		if err := k.check(c); err != nil {
			found = append(found, c.fault(k.name, "%v", err))
		}
	}
	for _, r := range relations {
		// A value that is wrong by itself says nothing about its fellow.
		if found.about(r.key) || found.about(r.other) {
			continue
		}
		if detail := r.check(c); detail != "" {
			found = append(found, c.fault(r.key, "%s%s", detail, c.otherPlace(r.other)))
		}
	}
	for _, n := range need {
		found = append(found, c.missing(n)...)
	}
	return found.err()
}

// relations are the rules that bind two keys. That delivery.connect_timeout and delivery.max_in_flight_per_endpoint may be
// above what bounds them is no fault: the lower one holds, and whoever lowers delivery.timeout alone means just that. A check gives what is wrong with the first, "" for nothing; the place of the
// other's value is added, for that may be the one to mend.
var relations = []struct {
	key, other string
	check      func(*Config) string
}{
	// A lease that ended while its attempt is under way would have another process send the same delivery beside it. The
	// longest timeout is that of a whole attempt: connecting is a part of it, and an endpoint's own is held to MaxTimeout.
	{"delivery.lease", "delivery.timeout", func(c *Config) string {
		if c.Delivery.Timeout <= c.Delivery.MaxTimeout() {
			return ""
		}
		return fmt.Sprintf("%s is too short, want at least twice the longest timeout, delivery.timeout of %s",
			duration.Format(c.Delivery.Lease), duration.Format(c.Delivery.Timeout))
	}},
	{"secrets.key_file", "secrets.keys", func(c *Config) string {
		if c.Secrets.KeyFile == "" || len(c.Secrets.Keys) == 0 || c.keysFromFile {
			return ""
		}
		return "is set beside secrets.keys, want one of the two"
	}},
	{"console.oidc.client_id", "console.oidc.issuer", func(c *Config) string {
		switch o := c.Console.OIDC; {
		case o.Issuer != "" && o.ClientID == "":
			return "is not set, want the console's name at console.oidc.issuer"
		case o.Issuer == "" && o.ClientID != "":
			return "is set, and console.oidc.issuer is not, want both or none"
		}
		return ""
	}},
	{"console.oidc.viewers", "console.oidc.issuer", func(c *Config) string {
		if o := c.Console.OIDC; o.Issuer == "" || len(o.Viewers)+len(o.Support)+len(o.Admins) > 0 {
			return ""
		}
		return "is not set, and neither are console.oidc.support and console.oidc.admins: nobody could get in, want one of them"
	}},
	{"database.migrate_on_start", "database.direct_url", func(c *Config) string {
		if !c.Database.MigrateOnStart || c.Database.SessionURL() != "" || c.Database.URL == "" {
			return ""
		}
		return "is true, and " + noSession
	}},
	{"metrics.addr", "http.addr", func(c *Config) string {
		if c.Metrics.Addr != c.HTTP.Addr || strings.HasSuffix(c.HTTP.Addr, ":0") {
			return ""
		}
		return "is http.addr too, want another address, or none for /metrics on http.addr"
	}},
}

// MaxTimeout is the longest timeout that an attempt may have under this lease, an endpoint's own included.
func (d Delivery) MaxTimeout() time.Duration { return d.Lease / 2 }

// otherPlace tells where the other value of a rule was set, if it was.
func (c *Config) otherPlace(key string) string {
	place := c.origin(key).place
	if place == "" {
		return ""
	}
	return "; " + key + " is from " + place
}

// noSession follows on who needs one: the migrations' lock is held by a session.
const noSession = "a pooler in transaction mode gives no session to migrate in: want database.direct_url, which leads past it"

// missing lists what need asks for and is not there.
func (c *Config) missing(need Need) faults {
	switch need {
	case NeedDatabase:
		if c.Database.URL == "" {
			return faults{c.fault("database.url", "is not set, want postgres://user:password@host:5432/database")}
		}
	case NeedSession:
		if c.Database.URL == "" && c.Database.DirectURL == "" {
			return c.missing(NeedDatabase)
		}
		if c.Database.SessionURL() == "" {
			return faults{c.fault("database.direct_url", "is not set, and %s", noSession)}
		}
	case NeedSecrets:
		switch {
		case c.keyFileFault != nil:
			return faults{*c.keyFileFault}
		case len(c.Secrets.Keys) == 0:
			return faults{c.fault("secrets.keys", "is not set and neither is secrets.key_file, want base64 of exactly 32 bytes (openssl rand -base64 32)")}
		}
	}
	return nil
}
