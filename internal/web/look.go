package web

// look is how a word for a state appears: with an icon, and a colour that only adds to them.
type look struct{ Word, Tone, Icon string }

// looks is all words that say how something is, as the database and the API spell them.
var looks = map[string]look{
	// deliveries, events and jobs
	"scheduled": {"", "calm", "calendar"},
	"pending":   {"", "busy", "clock"},
	"queued":    {"", "busy", "clock"},
	"in_flight": {"in flight", "busy", "sending"},
	"running":   {"", "busy", "sending"},
	"succeeded": {"", "good", "check"},
	"failed":    {"", "bad", "cross"},
	"cancelled": {"", "calm", "stop"},
	"held":      {"", "warn", "pause"},
	"skipped":   {"", "calm", "stop"},

	// outcomes of attempts
	"unauthorized":   {"", "bad", "key"},
	"gone":           {"", "bad", "skull"},
	"retryable":      {"", "warn", "warning"},
	"redirected":     {"", "warn", "open"},
	"rejected":       {"", "bad", "cross"},
	"timeout":        {"", "warn", "clock"},
	"dns_error":      {"DNS error", "bad", "cross"},
	"connect_error":  {"connect error", "bad", "cross"},
	"tls_error":      {"TLS error", "bad", "cross"},
	"protocol_error": {"protocol error", "bad", "cross"},
	"blocked":        {"", "bad", "stop"},
	"unknown":        {"", "warn", "warning"},

	// endpoints and schedules
	"active":   {"", "good", "check"},
	"enabled":  {"", "good", "check"},
	"healthy":  {"", "good", "check"},
	"failing":  {"", "warn", "warning"},
	"paused":   {"", "warn", "pause"},
	"disabled": {"", "warn", "pause"},
	"dead":     {"", "bad", "skull"},

	// alerts
	"open":         {"", "bad", "bell"},
	"acknowledged": {"", "warn", "people"},
	"resolved":     {"", "good", "check"},
}

// lookOf gives the look of a word; one without is shown as it is.
func lookOf(word string) look {
	l, ok := looks[word]
	if !ok {
		return look{word, "calm", "list"}
	}
	if l.Word == "" {
		l.Word = word
	}
	return l
}

// HasLook reports whether a word has a look of its own.
func HasLook(word string) bool { _, ok := looks[word]; return ok }
