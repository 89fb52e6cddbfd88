package dispatcher

import (
	"net/netip"
	"strings"
)

// ShownURL is the attempt's URL for people: see HideQuery.
func (a Attempt) ShownURL() string { return HideQuery(a.URL) }

// Outsider is the attempt as a tenant may see it: how the network around Postrider is laid out stays hidden. What is left of
// the address is its class.
func (a Attempt) Outsider(class func(netip.Addr) string) Attempt {
	a.ErrorDetail = ""
	if a.Address != "" {
		a.Address = addressClass(a.Address, class)
	}
	return a
}

// addressClass is the class of a host and a port.
func addressClass(address string, class func(netip.Addr) string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "unknown"
	}
	return class(at.Addr())
}

// Place says to people where an endpoint, by its URL or "" where it has none, gets its deliveries: see HideQuery.
func Place(url string) string {
	if url == "" {
		return "fetched by its owner"
	}
	return HideQuery(url)
}

// HideQuery takes the values out of a URL's query: they are where receivers like to have their tokens, and whoever may
// see attempts need not be who may see endpoints. A part without a name is all value. The rest stays, byte for byte.
func HideQuery(raw string) string {
	rest, fragment, hasFragment := strings.Cut(raw, "#")
	before, query, _ := strings.Cut(rest, "?")
	if query == "" {
		return raw
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, named := strings.Cut(part, "=")
		switch {
		case named && value != "":
			parts[i] = name + "=" + redactedValue
		case !named && part != "":
			parts[i] = redactedValue
		}
	}
	shown := before + "?" + strings.Join(parts, "&")
	if hasFragment {
		shown += "#" + fragment
	}
	return shown
}
