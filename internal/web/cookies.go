package web

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// Cookies have the prefix __Host- (RFC 6265bis, section 4.1.3.2): no other host and no plain connection can set them, and
// they go to this host alone. Browsers take loopback for a secure place, so `postrider dev` works without TLS.

func (s *Site) cookieName() string {
	return "__Host-postrider" + strings.ReplaceAll(s.o.Base, "/", "_")
}

func (s *Site) noticeName() string { return s.cookieName() + "_notice" }

// cookie makes one. A site that may be shown in another's frame is a third party there, and browsers keep its cookies only
// apart for each of those (Partitioned), and only where it asks for SameSite=None; elsewhere Lax keeps them at home.
func (s *Site) cookie(name, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(life.Seconds()),
	}
	if life <= 0 {
		c.MaxAge = -1
	}
	if len(s.o.Embedders) > 0 {
		c.SameSite, c.Partitioned = http.SameSiteNoneMode, true
	}
	return c
}

// SignedIn gives the visitor's browser the session that the token is for.
func (v *Visit) SignedIn(token string, until time.Time) {
	http.SetCookie(v.W, v.site.cookie(v.site.cookieName(), token, until.Sub(v.Now)))
}

// SignOut ends the session, in the database and in the browser.
func (v *Visit) SignOut() error {
	if cookie, err := v.R.Cookie(v.site.cookieName()); err == nil {
		if err := v.site.o.Sessions.End(v.Ctx(), cookie.Value); err != nil {
			return err
		}
	}
	http.SetCookie(v.W, v.site.cookie(v.site.cookieName(), "", 0))
	return nil
}

// Keep has the browser keep a value for a while, under a name of the site's.
func (v *Visit) Keep(name, value string, life time.Duration) {
	http.SetCookie(v.W, v.site.cookie(v.site.cookieName()+"_"+name, value, life))
}

// Kept gives what was kept under the name: "" if nothing was.
func (v *Visit) Kept(name string) string {
	cookie, err := v.R.Cookie(v.site.cookieName() + "_" + name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// noticeLife is how long a notice waits for the page that shows it.
const noticeLife = time.Minute

// Notice is what a page says of what was just done.
type Notice struct {
	Bad  bool
	Text string
}

func (v *Visit) leaveNotice(n Notice) {
	mark := "+"
	if n.Bad {
		mark = "-"
	}
	const most = 1500 // a browser keeps 4096 bytes of a cookie
	text := mark + n.Text
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	http.SetCookie(v.W, v.site.cookie(v.site.noticeName(), base64.RawURLEncoding.EncodeToString([]byte(text)), noticeLife))
}

// takeNotice gives the notice that an earlier answer left, this once.
func (v *Visit) takeNotice() *Notice {
	cookie, err := v.R.Cookie(v.site.noticeName())
	if err != nil {
		return nil
	}
	http.SetCookie(v.W, v.site.cookie(v.site.noticeName(), "", 0))
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(text) < 2 {
		return nil
	}
	return &Notice{Bad: text[0] == '-', Text: string(text[1:])}
}
