package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	export "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// collector takes traces by OTLP over HTTP, as an OpenTelemetry collector does.
type collector struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	got  []*export.ExportTraceServiceRequest
	with http.Header // of the last export
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	s := httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	var req export.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.got, c.with = append(c.got, &req), r.Header
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// deaf takes an export and says nothing.
func deaf(t *testing.T) string {
	t.Helper()
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(end)
		s.Close()
	})
	return s.URL
}

// span is one that was exported, ids in hexadecimal.
type span struct {
	t                         *testing.T
	name, trace, span, parent string
	kind                      spans.Span_SpanKind
	attributes                map[string]string
	links                     []string
}

func (c *collector) all() (out []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, req := range c.got {
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					one := span{
						t: c.t, name: s.Name, trace: hex.EncodeToString(s.TraceId), span: hex.EncodeToString(s.SpanId),
						parent: hex.EncodeToString(s.ParentSpanId), kind: s.Kind, attributes: map[string]string{},
					}
					for _, a := range s.Attributes {
						one.attributes[a.Key] = plain(a.Value)
					}
					for _, l := range s.Links {
						one.links = append(one.links, hex.EncodeToString(l.TraceId)+"-"+hex.EncodeToString(l.SpanId))
					}
					out = append(out, one)
				}
			}
		}
	}
	return out
}

func plain(v *common.AnyValue) string {
	if s, ok := v.Value.(*common.AnyValue_StringValue); ok {
		return s.StringValue
	}
	if n, ok := v.Value.(*common.AnyValue_IntValue); ok {
		return fmt.Sprint(n.IntValue)
	}
	return v.String()
}

func (c *collector) count() int { return len(c.all()) }

// kind gives the spans of a kind that have an attribute.
func (c *collector) kind(kind spans.Span_SpanKind, name, value string) (out []span) {
	for _, s := range c.all() {
		if s.kind == kind && s.attributes[name] == value {
			out = append(out, s)
		}
	}
	return out
}

// only waits for a span: what ends last is exported last.
func (c *collector) only(kind spans.Span_SpanKind, name, value string) (found span) {
	c.t.Helper()
	eventually(c.t, func() string {
		all := c.kind(kind, name, value)
		if len(all) != 1 {
			return fmt.Sprintf("%d spans of kind %s have %s=%s", len(all), kind, name, value)
		}
		found = all[0]
		return ""
	})
	return found
}

func (c *collector) children(of string) (out []span) {
	for _, s := range c.all() {
		if s.parent == of {
			out = append(out, s)
		}
	}
	return out
}

func (s span) wantParent(trace, parent string) {
	s.t.Helper()
	if s.trace != trace || s.parent != parent {
		s.t.Errorf("%s is in trace %s below %q, want %s below %q", s.name, s.trace, s.parent, trace, parent)
	}
}

// want looks at the name and at attributes; "" is one that is not there.
func (s span) want(name string, attributes map[string]string) {
	s.t.Helper()
	if s.name != name {
		s.t.Errorf("a span is called %q, want %q", s.name, name)
	}
	for key, value := range attributes {
		if s.attributes[key] != value {
			s.t.Errorf("%s: %s is %q, want %q", s.name, key, s.attributes[key], value)
		}
	}
}

// wantNothingOf looks for a secret in all that came.
func (c *collector) wantNothingOf(secret string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, req := range c.got {
		if text := protojson.Format(req); strings.Contains(text, secret) {
			c.t.Errorf("a secret was exported: %s", text)
		}
	}
}

func (c *collector) token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.with.Get("x-token")
}

func (c *collector) resource(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.got[0].ResourceSpans[0].Resource.Attributes {
		if a.Key == name {
			return plain(a.Value)
		}
	}
	return ""
}
