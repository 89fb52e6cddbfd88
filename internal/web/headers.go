package web

import (
	"net/http"
	"strings"
)

// policy is the Content-Security-Policy of all pages: scripts and styles are files of ours, and nothing is inline.
func policy(embedders []string) string {
	ancestors := "'none'"
	if len(embedders) > 0 {
		ancestors = strings.Join(embedders, " ")
	}
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
		"form-action 'self'", "base-uri 'none'", "frame-ancestors " + ancestors,
	}, "; ")
}

// setHeaders sets what holds for all answers of a site. Pages show what is not everybody's business, so no cache keeps them.
func (s *Site) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", s.csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
	if len(s.o.Embedders) == 0 {
		h.Set("X-Frame-Options", "DENY") // what browsers without frame-ancestors go by
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}
