package alert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"

	smtp "github.com/wneessen/go-mail"
)

// mailer sends mail through one SMTP server.
type mailer struct {
	host    string
	options []smtp.Option
	from    *mail.Address
	domain  string // of from; mails say nothing of the machine that they come from
	redact  func(string) string
	tls     bool // from the start
	slots   slots
}

// newMailer reads alerts.mail_url: smtp:// (STARTTLS, which tls=optional or tls=none do without) or smtps:// (TLS from the start).
func newMailer(raw string) (*mailer, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" { // url.Parse's own error repeats the URL
		return nil, errors.New("not the URL of an SMTP server")
	}
	query := u.Query()
	from, err := mail.ParseAddress(query.Get("from"))
	if err != nil {
		return nil, errors.New("no from that is an e-mail address")
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	m := &mailer{host: u.Hostname(), from: from, domain: domain, redact: redactor(raw), slots: newSlots()}
	port := 587
	m.options = []smtp.Option{smtp.WithTimeout(sendTimeout), smtp.WithHELO(domain), smtp.WithoutNoop()}
	switch tls := query.Get("tls"); {
	case u.Scheme == "smtps":
		port, m.tls = 465, true
		m.options = append(m.options, smtp.WithSSL())
	case tls == "none":
		port = 25
		m.options = append(m.options, smtp.WithTLSPolicy(smtp.NoTLS))
	case tls == "optional":
		m.options = append(m.options, smtp.WithTLSPolicy(smtp.TLSOpportunistic))
	case tls == "" || tls == "required":
		m.options = append(m.options, smtp.WithTLSPolicy(smtp.TLSMandatory))
	default:
		return nil, errors.New("tls is neither required, optional nor none")
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("the port is none")
		}
	}
	m.options = append(m.options, smtp.WithPort(port))
	if u.User != nil {
		password, _ := u.User.Password()
		m.options = append(m.options, smtp.WithSMTPAuth(smtp.SMTPAuthAutoDiscover), smtp.WithUsername(u.User.Username()), smtp.WithPassword(password))
	}
	if _, err := smtp.NewClient(m.host, m.options...); err != nil {
		return nil, errors.New("an SMTP client cannot be made of it")
	}
	return m, nil
}

// errUnreachable marks a failure that is not about one mail: the others would fail likewise.
var errUnreachable = errors.New("the mail server takes no mail")

// send sends one mail, once. An address or a subject can make no further header: the library encodes them.
func (m *mailer) send(ctx context.Context, to, subject, text string) error {
	msg := smtp.NewMsg(smtp.WithNoDefaultUserAgent())
	msg.FromMailAddress(m.from)
	if err := msg.To(to); err != nil {
		return errors.New("mail: contact_email is no address that mail can go to")
	}
	msg.Subject(plain(subject))
	msg.SetDate()
	msg.SetMessageIDWithValue(rand.Text() + "@" + m.domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // so that no holiday notice comes back
	msg.SetBodyString(smtp.TypeTextPlain, text)
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("no answer within %v", sendTimeout))
	defer cancel()
	err := m.talk(ctx, msg)
	if err == nil {
		return nil
	}
	told := m.redact(err.Error())
	var refused *smtp.SendError
	if errors.As(err, &refused) && ctx.Err() == nil {
		return fmt.Errorf("mail: %s", told)
	}
	return fmt.Errorf("mail: %w: %s", errUnreachable, told)
}

// talk has the library hand a message over, and waits for it no longer than ctx. The library heeds ctx while it connects and no more, and
// waits for a server's greeting without an end. So the connection is closed with ctx; where there is TLS from the start, it is out of
// reach, and what hangs on it keeps one of the slots.
func (m *mailer) talk(ctx context.Context, msg *smtp.Msg) error {
	options := m.options
	if !m.tls {
		options = append(slices.Clip(options), smtp.WithDialContextFunc(func(dialing context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(dialing, network, addr)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() }) // when it was closed already, nothing happens
			}
			return conn, err //nolint:wrapcheck // the library says what it did
		}))
	}
	client, err := smtp.NewClient(m.host, options...)
	if err != nil {
		return errors.New("an SMTP client cannot be made")
	}
	return m.slots.wait(ctx, func() error { return client.DialAndSendWithContext(ctx, msg) })
}
