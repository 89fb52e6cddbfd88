package alert

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/id"
)

// message is what a channel is handed: a title for those that take one, and a text that says it all, the title as its first line.
type message struct {
	title, text string
	stories     []story // that it tells: one, or many at once
	link        string  // to the console; "": nobody knows where that is
	event       string  // for programs, where it is not about alerts one by one: "group", "digest"
}

// single puts the news of one alert in words.
func (s *Sender) single(of story) message {
	m := message{stories: []story{of}, title: title(of), link: s.link("/" + of.alertID())}
	lines := []string{m.title}
	switch of.news() {
	case "resolved", "passed":
		lines = append(lines, "It was: "+of.detail())
	default:
		lines = append(lines, of.detail(), "What to do: "+advice[of.kind()])
	}
	if of.recent == flapTold-1 {
		lines = append(lines, fmt.Sprintf("It comes and goes: alert %d about it within an hour. The next ones are told if they last %v; all are in the console and the log.", flapTold, flapLasts))
	}
	lines = append(lines, of.about())
	if m.link != "" {
		lines = append(lines, m.link)
	}
	m.text = strings.Join(lines, "\n")
	return m
}

func title(of story) string {
	if of.Tenant == 0 {
		return fmt.Sprintf("Postrider alert %s: %s", verbs[of.news()], of.kind())
	}
	return fmt.Sprintf("Postrider alert %s: %s (%s)", verbs[of.news()], of.kind(), plain(of.TenantName))
}

var verbs = map[string]string{
	"opened": "opened", "escalated": "escalated", "resolved": "resolved", "passed": "opened and resolved",
}

// about says whose it is, since when and how often.
func (s story) about() string {
	var b strings.Builder
	if s.Tenant != 0 {
		fmt.Fprintf(&b, "Tenant %s (%s), endpoint %s", plain(s.TenantName), s.tenantID(), s.endpointID())
		if s.EndpointURL != "" {
			fmt.Fprintf(&b, " (%s)", plain(place(s.EndpointURL)))
		}
		b.WriteString(", alert ")
	} else {
		b.WriteString("Alert ")
	}
	fmt.Fprintf(&b, "%s, since %s, counted %d ", s.alertID(), s.OpenedAt.UTC().Format(stamp), s.Count)
	if s.ResolvedAt != nil && s.over() {
		fmt.Fprintf(&b, "in %v.", duration.Round(s.ResolvedAt.Sub(s.OpenedAt)))
		if s.ResolvedBy != nil {
			fmt.Fprintf(&b, " Resolved by %s.", plain(*s.ResolvedBy))
		}
	} else {
		b.WriteString("so far.")
	}
	return b.String()
}

const stamp = "2006-01-02 15:04:05 MST"

// advice is what whoever runs Postrider can do.
var advice = map[string]string{
	DeliveryFailing.String():       "nothing yet if the receiver is known to be down: it is tried again by itself. Else look at its last attempts.",
	DeliveryFailed.String():        "see its last attempts, have the receiver mended, then retry what failed.",
	EndpointUnauthorized.String():  "have its owner check the signing secret and headers, then retry what failed.",
	EndpointBlocked.String():       "have its owner give a public URL, or allow the network in delivery.allow_networks, then retry what failed.",
	EndpointDisabled.String():      "tell its owner. When the receiver is well, enable the endpoint: what is held goes on.",
	EndpointDead.String():          "ask its owner. If that was a mistake, enable the endpoint, then replay what it missed.",
	ServiceDeliveriesLate.String(): "see that dispatchers run and the database is well; add dispatchers if they are at their limits.",
	ServiceCanaryFailed.String():   "look at the dispatchers and their log: events may not be delivered.",
	ServiceNoDispatcher.String():   "start a process with the role dispatcher: nothing is delivered.",
	ServiceNoScheduler.String():    "start a process with the role scheduler: nothing is cleaned up, and recurring events wait.",
}

// link leads to the console's alerts, or to what is below them: "/" and an alert's id. "": nobody said where the console is.
func (s *Sender) link(below string) string {
	if s.config.PublicURL == "" {
		return ""
	}
	return strings.TrimSuffix(s.config.PublicURL, "/") + "/console/alerts" + below
}

func (s story) alertID() string    { return id.Alert.Format(id.ID{Shard: s.shard, N: s.alert}) }
func (s story) tenantID() string   { return id.Tenant.Format(id.ID{Shard: s.shard, N: s.Tenant}) }
func (s story) endpointID() string { return id.Endpoint.Format(id.ID{Shard: s.shard, N: s.Endpoint}) }
