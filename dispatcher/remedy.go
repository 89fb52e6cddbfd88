package dispatcher

// Remedy says what people can do about a delivery that failed or waits, beside what explain says went wrong: "" where there
// is nothing for them to do. fetched says that the endpoint's owner fetches it.
func Remedy(d Delivery, fetched bool) string {
	if d.State == StateSucceeded {
		return ""
	}
	if text := reasonRemedies[d.Reason]; text != "" {
		return text
	}
	if d.State == Held {
		return "Its endpoint is switched off. The delivery goes on when the endpoint is enabled."
	}
	if d.LastOutcome == nil {
		return ""
	}
	if fetched && *d.LastOutcome == Timeout {
		return "Its owner has to acknowledge it before the lease ends, or ask for a longer lease. Until then it is given out again and again."
	}
	return outcomeRemedies[*d.LastOutcome]
}

// reasonRemedies say more than the last outcome does. The other reasons are about the last attempt.
var reasonRemedies = map[Reason]string{
	ReasonUnauthorized:     "Have the endpoint's owner check its signing secret and its own headers, then retry.",
	ReasonGone:             "The receiver wants nothing more. If that was a mistake, have it mended, enable the endpoint, then retry.",
	ReasonBlocked:          "Change the endpoint's URL to a public address, or allow the network in delivery.allow_networks, then retry.",
	ReasonAborted:          "The receiver gave this delivery up itself. Retry only if its owner asks for it.",
	ReasonPoisoned:         "Postrider lost it five times in a row, which is no fault of the endpoint. Look into the log for its id before you retry.",
	ReasonUnsendable:       "No request can be made of it: its event is gone, or its endpoint cannot be read. See the endpoint's page.",
	ReasonCancelledByUser:  "Somebody cancelled it. Retry sends it after all.",
	ReasonCancelledByEvent: "Its event was cancelled. Retry sends this delivery after all.",
	ReasonEndpointDead:     "The receiver said 410 Gone. Enable the endpoint if that was a mistake, then retry.",
	ReasonEndpointDeleted:  "Its endpoint was deleted; it cannot be sent any more.",
	ReasonTenantDeleted:    "Its tenant was deleted; it cannot be sent any more.",
}

var outcomeRemedies = map[Outcome]string{
	Retryable:     "The receiver has trouble of its own. Retry once its owner says that it is well again.",
	Redirected:    "Change the endpoint's URL to where it redirects to: webhooks follow no redirect.",
	Rejected:      "The receiver does not take the request as it is. Its answer below may say why; retry after it was mended.",
	Timeout:       "The receiver takes too long. Have it answer first and work afterwards, or give the endpoint a longer timeout.",
	DNSError:      "Check the host name in the endpoint's URL, and that it is in the public DNS.",
	ConnectError:  "Check that the receiver runs, and that the port in the URL is reachable from outside.",
	TLSError:      "Have the receiver's certificate mended, or give the endpoint the authority that it is signed by.",
	ProtocolError: "What came back is no HTTP answer, or one over the limits. Check what listens at the URL's port.",
	Unknown:       "Nobody saw how the last attempt ended. It is tried again by itself.",
}
