package egress

import (
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/fault"
)

// portRange is an inclusive range of TCP ports.
type portRange struct{ from, to uint16 }

// PortSet is a set of TCP ports. The zero value stands for the default of `delivery.allow_ports`: 80, 443 and everything
// from 1024 up, so a Policy that says nothing about ports is neither open nor useless.
type PortSet struct{ ranges []portRange }

// defaultPorts leaves out the well-known ports where a POST could be taken for another protocol's command (SMTP's 25 and
// the like), save the two that are HTTP's own.
var defaultPorts = []portRange{{80, 80}, {443, 443}, {1024, 65535}}

// ParsePorts reads a list such as "80,443,1024-65535". Blanks around an entry are allowed; an empty entry, port 0, a
// number over 65535 and a range that runs backwards are fault.Invalid.
func ParsePorts(list string) (PortSet, error) {
	var set PortSet
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		low, high, isRange := strings.Cut(entry, "-")
		if !isRange {
			high = low
		}
		from, okFrom := parsePort(low)
		to, okTo := parsePort(high)
		if !okFrom || !okTo {
			return PortSet{}, fault.New(fault.Invalid, "%q is no port or range of ports from 1 to 65535", entry)
		}
		if from > to {
			return PortSet{}, fault.New(fault.Invalid, "the range of ports %q runs backwards", entry)
		}
		set.ranges = append(set.ranges, portRange{from, to})
	}
	return set, nil
}

// Contains reports whether port is in the set.
func (s PortSet) Contains(port uint16) bool {
	for _, r := range s.effective() {
		if r.from <= port && port <= r.to {
			return true
		}
	}
	return false
}

// String gives the set in the form ParsePorts reads.
func (s PortSet) String() string {
	var b strings.Builder
	for i, r := range s.effective() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(r.from)))
		if r.to != r.from {
			b.WriteString("-" + strconv.Itoa(int(r.to)))
		}
	}
	return b.String()
}

func (s PortSet) effective() []portRange {
	if len(s.ranges) == 0 {
		return defaultPorts
	}
	return s.ranges
}

// parsePort takes the one usual spelling of a port from 1 to 65535: no sign, no leading zero.
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, false
	}
	return uint16(n), true
}
