package portal

import "github.com/postrider/postrider/dispatcher"

// advice says what the owner of an endpoint can do about a delivery that failed or waits, beside what went wrong; "" is nothing.
// What an operator would do is not for them (dispatcher.Remedy). fetched says that they fetch it themselves.
func advice(d dispatcher.Delivery, fetched bool) string {
	switch {
	case d.State == dispatcher.StateSucceeded:
		return ""
	case d.State == dispatcher.Held:
		return "The endpoint is paused. The delivery goes on when you enable it."
	}
	if text := reasonAdvice[d.Reason]; text != "" {
		return text
	}
	if d.LastOutcome == nil {
		return ""
	}
	if fetched && *d.LastOutcome == dispatcher.Timeout {
		return "You fetched it and did not acknowledge it in time, so it is given out again. Acknowledge it sooner, or ask for a longer lease."
	}
	return outcomeAdvice[*d.LastOutcome]
}

// reasonAdvice says more than the last outcome does. The other reasons are about the last attempt.
var reasonAdvice = map[dispatcher.Reason]string{
	dispatcher.ReasonUnauthorized:     "Your receiver refused the signature or your own headers. Check its secret, then send again.",
	dispatcher.ReasonGone:             "Your receiver answered 410 Gone, so the endpoint gets nothing more. If that was a mistake, mend it, enable the endpoint, then send again.",
	dispatcher.ReasonBlocked:          "Webhooks go to public addresses only. Change the endpoint's URL, then send again.",
	dispatcher.ReasonAborted:          "Your receiver gave this delivery up itself.",
	dispatcher.ReasonPoisoned:         "It got lost on our side. Send it again; if that fails, tell us its id.",
	dispatcher.ReasonUnsendable:       "No request can be made of it. Tell us its id.",
	dispatcher.ReasonCancelledByUser:  "It was cancelled. Send it again if you want it after all.",
	dispatcher.ReasonCancelledByEvent: "Its event was cancelled. Send it again if you want it after all.",
	dispatcher.ReasonEndpointDead:     "Your receiver answered 410 Gone. Enable the endpoint if that was a mistake, then send again.",
	dispatcher.ReasonEndpointDeleted:  "The endpoint was deleted, so it cannot be sent any more.",
}

var outcomeAdvice = map[dispatcher.Outcome]string{
	dispatcher.Retryable:     "Your receiver had trouble of its own. Send again once it is well.",
	dispatcher.Redirected:    "Change the endpoint's URL to where it redirects to: webhooks follow no redirect.",
	dispatcher.Rejected:      "Your receiver does not take the request as it is. Its answer below may say why.",
	dispatcher.Timeout:       "Your receiver takes too long. Have it answer first and work afterwards, or give the endpoint a longer timeout.",
	dispatcher.DNSError:      "Check the host name in the endpoint's URL, and that it is in the public DNS.",
	dispatcher.ConnectError:  "Check that your receiver runs, and that the port in the URL can be reached from the internet.",
	dispatcher.TLSError:      "Have your receiver's certificate mended: it has to be valid for the host name, with its whole chain.",
	dispatcher.ProtocolError: "What came back is no HTTP answer, or one over the limits. Check what listens at the URL's port.",
	dispatcher.Unknown:       "Nobody saw how the last attempt ended. It is tried again by itself.",
}
