// Package egress is the only place in Postrider that talks to strangers: it says where deliveries may go (Policy) and
// sends one request there (Client).
//
// What it promises about one Do: one request on the wire at most, to an address that was checked on the socket itself,
// framed with a Content-Length, never redirected, never compressed, never through a proxy of the environment, with no
// cookie kept, and with every part of it ended by the deadline of the request's context.
//
// Certificates are always verified, with TLS 1.2 at least. An endpoint with TLS of its own (DoAs) has a transport of its own, so its
// connections and sessions serve no other; it is closed when it was not used for some minutes.
//
// What it keeps between requests: connections, TLS sessions, and for some seconds the answers of the DNS. An address out of
// a kept answer is checked on its socket like any other, so a name that changes its mind gains nothing by it.
//
// What it does not do: it judges no answer and no error (the dispatcher does, from Go's own error types, which are left
// as they are), it tries nothing again, it signs nothing, sets no header of its own, writes no log and counts no metric.
//
// Behind a proxy (Config.ProxyURL) the promise about addresses is weaker. Do resolves the name itself and refuses it when
// any of its addresses is not allowed, but then the proxy resolves the name once more and dials what it then finds; a name
// that changes its answer between the two lookups is the proxy's to stop. The host Postrider runs on must be able to
// resolve public names. Over plain http the proxy's own error pages cannot be told from the receiver's answers.
package egress
