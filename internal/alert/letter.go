package alert

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// letter words mail to the owner of endpoints. It says what the portal would: nothing of what is inside around Postrider, and
// nothing of what its operator can do. name is what the portals are called.
func letter(name string, of []story) (subject, text string) {
	sorted := slices.Clone(of)
	slices.SortStableFunc(sorted, func(a, b story) int { return b.gravity() - a.gravity() })
	bad := 0
	for _, s := range sorted {
		if !s.over() {
			bad++
		}
	}
	well := len(sorted) - bad
	var b strings.Builder
	switch {
	case len(sorted) == 1:
		subject = "your endpoint at " + host(sorted[0].EndpointURL) + " " + state(sorted[0])
	case bad == 0:
		subject = fmt.Sprintf("%d of your endpoints have recovered", well)
	case bad == 1:
		subject = "one of your endpoints needs attention"
	default:
		subject = fmt.Sprintf("%d of your endpoints need attention", bad)
	}
	subject = name + ": " + subject
	fmt.Fprintf(&b, "Hello,\n\nthis is about the webhooks of %s.\n", plain(sorted[0].TenantName))
	for i, s := range sorted {
		if i == mailListed {
			fmt.Fprintf(&b, "\n… and %d more.\n", len(sorted)-mailListed)
			break
		}
		fmt.Fprintf(&b, "\n* %s\n  The endpoint %s %s.\n", plain(place(s.EndpointURL)), s.endpointID(), state(s))
		if s.over() {
			fmt.Fprintf(&b, "  It had trouble since %s.\n", s.OpenedAt.UTC().Format(stamp))
			continue
		}
		fmt.Fprintf(&b, "  Since: %s\n  Why: %s\n  What to do: %s\n", s.OpenedAt.UTC().Format(stamp), s.detail(), ownersAdvice[s.kind()])
	}
	b.WriteString("\nYou get this mail because your address is the contact for these webhooks.\n")
	return subject, b.String()
}

// mailListed is how many endpoints a mail names.
const mailListed = 20

func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "an unknown place"
	}
	return plain(u.Host)
}

func state(s story) string {
	if s.over() {
		return "has recovered"
	}
	switch s.kind() {
	case EndpointDead.String():
		return "gets nothing more"
	case EndpointDisabled.String():
		return "is switched off"
	case EndpointUnauthorized.String():
		return "refuses our requests"
	case EndpointBlocked.String():
		return "cannot be delivered to"
	}
	return "is failing"
}

// ownersAdvice is what the owner of an endpoint can do.
var ownersAdvice = map[string]string{
	DeliveryFailing.String():      "check that your receiver runs and answers with a 2xx status. We try again by ourselves, at longer and longer intervals.",
	DeliveryFailed.String():       "mend your receiver, then have what failed sent again.",
	EndpointUnauthorized.String(): "check the signing secret and your own headers, then have what failed sent again.",
	EndpointBlocked.String():      "webhooks go to public addresses only: change the endpoint's URL.",
	EndpointDisabled.String():     "mend your receiver, then enable the endpoint: what is held goes on.",
	EndpointDead.String():         "your receiver said that it wants nothing more. If that was a mistake, mend it and enable the endpoint.",
}
