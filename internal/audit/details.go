package audit

import (
	"net/url"
	"reflect"
)

// Details are what an entry says beside who did what to which thing.
type Details map[string]any

// change is one field's in an entry of a change.
type change struct {
	Old any `json:"old"`
	New any `json:"new"`
}

const changesName = "changes"

// Changed notes a field whose value is another one now, and does nothing if it is not.
func (d *Details) Changed(field string, before, after any) {
	if !reflect.DeepEqual(before, after) {
		d.note(field, change{before, after})
	}
}

// ChangedUnseen notes, without the values, that a field's value is another one now.
func (d *Details) ChangedUnseen(field string, changed bool) {
	if changed {
		d.note(field, "changed")
	}
}

func (d *Details) note(field string, what any) {
	if *d == nil {
		*d = Details{}
	}
	changes, _ := (*d)[changesName].(map[string]any)
	if changes == nil {
		changes = map[string]any{}
		(*d)[changesName] = changes
	}
	changes[field] = what
}

// URL is as much of a URL as may be told: credentials are put into queries, and were put before the host.
func URL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "?"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.RawQuery != "" {
		return shown.String() + "?…"
	}
	return shown.String()
}
