package dispatcher

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxDetail bounds the programs' words for a failure, in bytes.
	maxDetail = 1000
	// telling is the least length of a value that is looked for in them: a shorter one is no secret, and is in every text.
	telling = 4
	hidden  = "[redacted]"
)

// detail gives the programs' own words for why there is no answer, with addresses: for whoever runs Postrider, beside what
// explain says to everybody. "" if there is an answer. Receivers can get words into it (a status line that is none is
// repeated), so what of the request may be secret is taken out: the URL's query and the endpoint's own headers.
func (r *result) detail() string {
	err := r.answer.err
	if err == nil || errors.Is(err, errUnacknowledged) { // which is all there is to say
		return ""
	}
	text := err.Error()
	var more interface{ Detail() string } // internal/egress has it
	if errors.As(err, &more) {
		text = more.Detail()
	}
	text = strings.ReplaceAll(text, "\n", "; ")
	for _, form := range r.secrets() {
		if len(form) >= telling {
			text = strings.ReplaceAll(text, form, hidden)
		}
	}
	return clip(printable(text), maxDetail) // certificates' names come as they are
}

// secrets are the values that went out with the request and are not everybody's, in each form in which they may come back.
// The longest come first: of a value that begins with another one, the rest would stay.
func (r *result) secrets() []string {
	if r.target == nil {
		return nil
	}
	out := []string{r.signature}
	for _, h := range r.target.Headers {
		out = append(append(out, h.Value), strings.Fields(h.Value)...) // "Bearer" and what follows
	}
	_, query, _ := strings.Cut(r.target.URL, "?")
	out = append(out, query)
	for part := range strings.SplitSeq(query, "&") {
		_, value, named := strings.Cut(part, "=")
		if !named {
			value = part
		}
		out = append(out, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			out = append(out, plain)
		}
	}
	for _, secret := range out {
		out = append(out, strings.Trim(strconv.Quote(secret), `"`)) // as net/http repeats what it could not read
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}
