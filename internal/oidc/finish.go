package oidc

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
)

// User is who has signed in. Issuer and Subject say who it is; Name is for people to read, and may be anything.
type User struct {
	Issuer, Subject string
	Name            string
	Role            auth.Role
}

func stale() error {
	return fault.New(fault.Unauthenticated, "this sign-in took too long, or was begun in another browser: sign in again")
}

// distrust is a fault of what the provider said. What exactly was wrong is for the log.
func distrust(cause error) error {
	return fault.Wrap(fault.Unauthenticated, cause, "what the OpenID provider said cannot be trusted: sign in again")
}

// Finish reads what a browser brings back from the provider: the value of the cookie and the callback's query. It fails with
// Unauthenticated when that proves nothing, with Forbidden when somebody has no role here, and with Unavailable when the
// provider cannot be asked.
func (o *OIDC) Finish(ctx context.Context, cookieState []byte, query url.Values) (_ User, returnTo string, err error) {
	a, ok := readAttempt(cookieState, o.cfg.Now())
	if !ok || !same(query.Get("state"), a.state()) {
		return User{}, "", stale()
	}
	// RFC 9207: a provider that says so in its answer has to be the one that was asked.
	if iss := query.Get("iss"); iss != "" && iss != o.cfg.Issuer {
		return User{}, "", distrust(errors.New("the answer is another issuer's"))
	}
	if code := query.Get("error"); code != "" {
		return User{}, "", fault.New(fault.Unauthenticated, "the OpenID provider did not let you in%s", spelled(code))
	}
	if query.Get("code") == "" {
		return User{}, "", distrust(errors.New("the answer has no code"))
	}
	p, err := o.provider(ctx)
	if err != nil {
		return User{}, "", err
	}
	ctx = o.context(ctx)
	token, err := p.exchange(ctx, query.Get("code"), a.verifier())
	if err != nil {
		return User{}, "", err
	}
	id, err := o.verify(ctx, p, token, a.nonce())
	if err != nil {
		return User{}, "", err
	}
	user, err := o.user(ctx, p, token, id)
	return user, a.returnTo, err
}

func same(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

var plainCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// spelled shows an error code, which is whatever stands in the address, if it looks like one.
func spelled(code string) string {
	if !plainCode.MatchString(code) {
		return ""
	}
	return ": " + code
}

// exchange gets the tokens for a code. The library's error repeats the answer's body, which is not for the log.
func (p *provider) exchange(ctx context.Context, code, verifier string) (*oauth2.Token, error) {
	token, err := p.oauth.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	var refused *oauth2.RetrieveError
	switch {
	case err == nil:
		return token, nil
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError:
		return nil, distrust(fmt.Errorf("the token endpoint answered %d%s", refused.Response.StatusCode, spelled(refused.ErrorCode)))
	case errors.As(err, &refused):
		err = errors.New("the token endpoint failed")
	}
	return nil, fault.Wrap(fault.Unavailable, fmt.Errorf("ask for the tokens of a sign-in: %w", err), "the OpenID provider cannot be asked; try again")
}

// verify reads the ID token, which has to be signed by the provider, for us, in time, and for this very sign-in.
func (o *OIDC) verify(ctx context.Context, p *provider, token *oauth2.Token, nonce string) (*upstream.IDToken, error) {
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nil, distrust(errors.New("there is no ID token"))
	}
	id, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, distrust(fmt.Errorf("verify an ID token: %w", err))
	}
	var more struct {
		Party string `json:"azp"`
	}
	if err := id.Claims(&more); err != nil {
		return nil, distrust(fmt.Errorf("read an ID token: %w", err))
	}
	switch {
	case !same(id.Nonce, nonce):
		return nil, distrust(errors.New("the ID token is for another sign-in: its nonce is not ours"))
	case id.Subject == "":
		return nil, distrust(errors.New("the ID token has no subject"))
	case more.Party != "" && more.Party != o.cfg.ClientID, more.Party == "" && len(id.Audience) > 1:
		return nil, distrust(errors.New("the ID token was made for another client"))
	}
	return id, nil
}

// profile is what may say how somebody is called.
type profile struct {
	Email    string `json:"email"`
	Verified bool   `json:"email_verified"`
	Username string `json:"preferred_username"`
	Name     string `json:"name"`
}

func (o *OIDC) user(ctx context.Context, p *provider, token *oauth2.Token, id *upstream.IDToken) (User, error) {
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return User{}, distrust(fmt.Errorf("read an ID token: %w", err))
	}
	if _, there := claims[o.cfg.RoleClaim]; !there && p.userinfo { // some providers keep groups out of the token
		info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return User{}, fault.Wrap(fault.Unavailable, fmt.Errorf("ask for the claims of a user: %w", err), "the OpenID provider cannot be asked; try again")
		}
		if info.Subject != id.Subject {
			return User{}, distrust(errors.New("the claims are somebody else's"))
		}
		if err := info.Claims(&claims); err != nil { // beside those that are there
			return User{}, distrust(fmt.Errorf("read the claims of a user: %w", err))
		}
	}
	role := o.role(texts(claims[o.cfg.RoleClaim]))
	if role == "" {
		return User{}, fault.New(fault.Forbidden, "you are signed in at the OpenID provider, but have no role here: ask whoever runs this")
	}
	return User{Issuer: o.cfg.Issuer, Subject: id.Subject, Name: nameOf(claims, id.Subject), Role: role}, nil
}

// texts reads a claim that is a text or a list of them. What else is in it says nothing.
func texts(claim json.RawMessage) []string {
	var one string
	if json.Unmarshal(claim, &one) == nil && one != "" {
		return []string{one}
	}
	var list []any
	_ = json.Unmarshal(claim, &list) // what is no list has no texts
	var all []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// role is the highest that one of the values gives; "": none.
func (o *OIDC) role(values []string) auth.Role {
	for _, r := range []struct {
		role auth.Role
		by   []string
	}{{auth.RoleAdmin, o.cfg.Admins}, {auth.RoleSupport, o.cfg.Support}, {auth.RoleViewer, o.cfg.Viewers}} {
		if slices.ContainsFunc(values, func(v string) bool { return slices.Contains(r.by, v) }) {
			return r.role
		}
	}
	return ""
}

// nameOf is how somebody is called in the audit log: by an address that the provider has seen to, else as they call themselves.
func nameOf(claims map[string]json.RawMessage, subject string) string {
	var p profile
	for name, at := range map[string]any{
		"email": &p.Email, "email_verified": &p.Verified, "preferred_username": &p.Username, "name": &p.Name,
	} {
		_ = json.Unmarshal(claims[name], at) // of another type it is none
	}
	if !p.Verified {
		p.Email = ""
	}
	for _, name := range []string{p.Email, p.Username, p.Name} {
		if name != "" {
			return name
		}
	}
	return subject
}
