package dispatcher

import (
	"fmt"
	"net/url"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/id"
)

// finding says in plain words what an alert is about, to the endpoint's owner: what, where, and what to do.
func finding(kind alert.Kind, r result) string {
	at := place(r.target.URL)
	if r.claimed.Pull {
		at = "of kind pull"
	}
	where := fmt.Sprintf("Endpoint %s (%s)", id.Endpoint.Format(r.claimed.endpoint()), at)
	why := explain(r.outcome, r.answer)
	switch kind {
	case alert.EndpointDead:
		return where + " answered 410 Gone. It gets nothing more until it is enabled again; what was waiting for it is cancelled."
	case alert.EndpointDisabled:
		if r.decision.EndpointReason == disabledByReceiver {
			return where + " asked to be switched off (webhook-delivery: disable). Its deliveries are held until it is enabled again."
		}
		return where + " was switched off: every attempt failed for too long, the last one because " + why +
			". Its deliveries are held until it is enabled again."
	case alert.EndpointBlocked:
		return where + " cannot be delivered to: " + why + ". Change its URL."
	case alert.EndpointUnauthorized:
		return where + fmt.Sprintf(" refuses our credentials (%d): check its secret and its headers.", r.answer.status)
	case alert.DeliveryFailed:
		return fmt.Sprintf("%s: delivery %s failed for good (%s)%s.", where, r.deliveryID(), r.decision.Reason, because(why))
	case alert.DeliveryFailing:
		return fmt.Sprintf("%s: delivery %s has failed %d times%s.", where, r.deliveryID(), r.decision.Failures, because(why))
	case alert.ServiceDeliveriesLate, alert.ServiceCanaryFailed, alert.ServiceNoScheduler, alert.ServiceNoDispatcher: // no attempt's
	}
	return where
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// place is a URL without what may be secret in it.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || raw == "" {
		return "URL unknown"
	}
	return clip(u.Scheme+"://"+u.Host+u.EscapedPath(), 200)
}
