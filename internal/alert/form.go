package alert

import (
	"encoding/json"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// form gives a message the form that the channel's service wants: what goes as its text, and what beside it.
//
// A service is handed only what it knows: the library applies parameters in any order and stops at the first unknown one.
func (c *channel) form(m message) (string, types.Params) {
	params := types.Params{}
	switch {
	case c.json:
		params = machine(m)
		params.SetTitle(m.title)
	case c.name == "pagerduty":
		return m.title + incidentDetail(m), c.incident(m)
	case c.name == "opsgenie":
		params.SetTitle(clipped(m.title, 130)) // what its API takes
		if !c.given["alias"] {
			params["alias"] = dedupKey(m)
		}
	case c.titled:
		params.SetTitle(m.title)
		if c.name == "smtp" { // which writes it into the header as it is
			params.SetTitle(mime.QEncoding.Encode("utf-8", m.title))
		}
	}
	return m.text, params
}

// machine is a message for a program. All values are texts, which is what the library can carry.
func machine(m message) types.Params {
	p := types.Params{"alerts": strconv.Itoa(len(m.stories)), "alert_ids": ids(m.stories)}
	if m.link != "" {
		p["url"] = m.link
	}
	if m.event != "" {
		p["event"] = m.event
		return p
	}
	of := m.stories[0]
	p["event"], p["kind"], p["alert_id"], p["detail"] = of.news(), of.kind(), of.alertID(), of.detail()
	p["count"] = strconv.Itoa(of.Count)
	p["opened_at"] = of.OpenedAt.UTC().Format(time.RFC3339Nano)
	if of.ResolvedAt != nil && of.over() {
		p["resolved_at"] = of.ResolvedAt.UTC().Format(time.RFC3339Nano)
	}
	if of.Tenant != 0 {
		p["tenant_id"], p["tenant_name"] = of.tenantID(), plain(of.TenantName)
		p["endpoint_id"], p["endpoint_url"] = of.endpointID(), place(of.EndpointURL)
	}
	return p
}

// listedIDs is how many alerts a message names to a program.
const listedIDs = 100

func ids(of []story) string {
	var all []string
	for _, s := range of[:min(len(of), listedIDs)] {
		all = append(all, s.alertID())
	}
	return strings.Join(all, ",")
}

// dedupKey tells a service that keeps incidents which one a message is about: the alert's id, or one for all that came as many.
func dedupKey(m message) string {
	if len(m.stories) == 1 {
		return m.stories[0].alertID()
	}
	return "postrider-many"
}

func incidentDetail(m message) string {
	if len(m.stories) == 1 {
		return ": " + m.stories[0].detail()
	}
	return ""
}

// incident opens or resolves an incident. What the URL says itself stays.
func (c *channel) incident(m message) types.Params {
	p := types.Params{"action": "trigger", "dedup_key": dedupKey(m), "client": "Postrider"}
	if len(m.stories) == 1 && m.stories[0].over() {
		p["action"] = "resolve"
	}
	severity := "warning"
	for _, s := range m.stories {
		if s.Tenant == 0 {
			severity = "critical"
		}
	}
	if !c.given["severity"] {
		p["severity"] = severity
	}
	if !c.given["source"] {
		p["source"] = "postrider"
	}
	if details, err := json.Marshal(machine(m)); err == nil {
		p["details"] = string(details)
	}
	if m.link != "" {
		p["client_url"] = m.link
	}
	return p
}

func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
