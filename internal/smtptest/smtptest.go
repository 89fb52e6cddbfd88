// Package smtptest is a mail server for tests, on loopback: it keeps the mails that it takes, and refuses what it is told to. It is
// not for production.
package smtptest

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Options are what a server asks of its clients.
type Options struct {
	TLS            *tls.Config // for STARTTLS; nil: there is none
	User, Password string      // "": nobody has to say who they are
}

// Mail is a mail that was taken.
type Mail struct {
	From string
	To   []string
	TLS  bool
	User string
	Raw  string
}

// Header gives a header as it was sent, decoded by nobody.
func (m Mail) Header(name string) string {
	parsed, err := mail.ReadMessage(strings.NewReader(m.Raw))
	if err != nil {
		return err.Error()
	}
	return parsed.Header.Get(name)
}

// Server is a mail server.
type Server struct {
	Addr    string // host:port
	options Options
	mu      sync.Mutex
	mails   []Mail
	refused map[string]*smtp.SMTPError // by recipient; "": all
	news    chan struct{}
}

// New starts a server, which is stopped with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), options: o, refused: map[string]*smtp.SMTPError{}, news: make(chan struct{}, 1)}
	server := smtp.NewServer(s)
	server.Domain, server.TLSConfig, server.AllowInsecureAuth, server.ErrorLog = "localhost", o.TLS, true, silent{}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return s
}

// Port is that of Addr.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Refuse has mail to a recipient ("": to all) be refused for good, until Accept.
func (s *Server) Refuse(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[to] = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user here"}
}

// Accept takes back Refuse.
func (s *Server) Accept(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, to)
}

// Mails gives what was taken since the last call.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.mails
	s.mails = nil
	return out
}

// News gets something when a mail was taken.
func (s *Server) News() <-chan struct{} { return s.news }

// NewSession begins a connection: go-smtp calls it.
func (s *Server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{server: s, conn: c}, nil
}

// silent says nothing of clients that break off, which is what some tests are about.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

type session struct {
	server *Server
	conn   *smtp.Conn
	mail   Mail
	user   string
}

func (s *session) AuthMechanisms() []string {
	if s.server.options.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.options.User || password != s.server.options.Password {
			return smtp.ErrAuthFailed
		}
		s.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.options.User != "" && s.user == "" {
		return smtp.ErrAuthRequired
	}
	_, secure := s.conn.TLSConnectionState()
	s.mail = Mail{From: from, TLS: secure, User: s.user}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for _, who := range []string{to, ""} {
		if refusal := s.server.refused[who]; refusal != nil {
			return refusal
		}
	}
	s.mail.To = append(s.mail.To, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return errors.New("the mail did not come whole")
	}
	s.mail.Raw = string(raw)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, s.mail)
	select {
	case s.server.news <- struct{}{}:
	default:
	}
	return nil
}

func (s *session) Reset()        { s.mail = Mail{} }
func (s *session) Logout() error { return nil }
