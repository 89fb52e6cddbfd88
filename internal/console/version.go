package console

import (
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/web"
)

// versionField carries through a form which version of a thing it was made of.
const versionField = "version"

func versionOf(changed time.Time) string { return changed.UTC().Format(time.RFC3339Nano) }

// wantVersion fails with PreconditionFailed if the thing has been changed since the form was made: a form has all of a thing's
// fields, so it would undo that unseen. Whoever sends it again after that means it. It is for people, who take seconds: two
// requests at the same moment can both pass.
func wantVersion(form web.Form, changed time.Time) error {
	if form.Get(versionField) == versionOf(changed) {
		return nil
	}
	form.Values.Set(versionField, versionOf(changed))
	return fault.New(fault.PreconditionFailed, "it has been changed since this form was opened, and nothing was saved: look at what it is "+
		"now before you save again, which would put what is written here in its place")
}
