package alert

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// singly is up to how many messages go out one by one at once.
	singly = 5
	// listed is how many alerts a message about many names.
	listed = 10
)

// grouped puts the news of many alerts in one message: how many, whose, and the first of them, the gravest first.
func (s *Sender) grouped(many []story) message {
	if len(many) == 1 {
		return s.single(many[0])
	}
	sorted := slices.Clone(many)
	slices.SortStableFunc(sorted, func(a, b story) int { return b.gravity() - a.gravity() })
	m := message{stories: sorted, event: "group", link: s.link(""), title: "Postrider alerts: " + tally(sorted)}
	lines := []string{m.title}
	for i, one := range sorted {
		if i == listed {
			lines = append(lines, fmt.Sprintf("… and %d more.", len(sorted)-listed))
			break
		}
		lines = append(lines, "- "+verbs[one.news()]+" "+one.kind()+": "+one.short())
	}
	if m.link != "" {
		lines = append(lines, m.link)
	}
	m.text = strings.Join(lines, "\n")
	return m
}

// tally counts: "37 endpoints of 12 tenants are in trouble, 3 have recovered".
func tally(many []story) string {
	type who struct {
		shard int16
		n     int64
	}
	bad, well, ours, tenants := 0, 0, 0, map[who]bool{}
	for _, s := range many {
		switch {
		case s.Tenant == 0:
			ours++
			continue
		case s.over():
			well++
		default:
			bad++
		}
		tenants[who{s.shard, s.Tenant}] = true
	}
	var parts []string
	of := " of " + count(len(tenants), "tenant", "tenants")
	if bad > 0 {
		parts = append(parts, count(bad, "endpoint", "endpoints")+of+map[bool]string{true: " is in trouble", false: " are in trouble"}[bad == 1])
		of = ""
	}
	if well > 0 {
		parts = append(parts, count(well, "endpoint", "endpoints")+of+map[bool]string{true: " has recovered", false: " have recovered"}[well == 1])
	}
	if ours > 0 {
		parts = append(parts, fmt.Sprintf("%d about Postrider itself", ours))
	}
	return strings.Join(parts, ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// short is a line about an alert among others.
func (s story) short() string {
	text := s.detail()
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	if s.Tenant != 0 {
		return plain(s.TenantName) + ": " + text
	}
	return text
}
