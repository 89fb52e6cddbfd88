package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/audit"
)

// auditEntry is what of an entry of the audit log is shown to people.
type auditEntry struct {
	At    time.Time `json:"at"`
	Actor struct {
		Kind  string  `json:"kind"`
		KeyID *string `json:"key_id"`
		Name  string  `json:"name"`
	} `json:"actor"`
	Action   string          `json:"action"`
	ObjectID string          `json:"object_id"`
	TenantID *string         `json:"tenant_id"`
	From     *string         `json:"from"`
	Details  json.RawMessage `json:"details"`
}

// who is the actor in one word, and what kind it is of unless it is a key.
func (e auditEntry) who() string {
	if e.Actor.KeyID != nil {
		return e.Actor.Name + " (" + *e.Actor.KeyID + ")"
	}
	return e.Actor.Name + " (" + e.Actor.Kind + ")"
}

func newAuditLog(w world) *cobra.Command {
	return group("audit-log", "See who did what to which thing, from where", newAuditLogList(w))
}

func newAuditLogList(w world) *cobra.Command {
	var l listing
	var tenant, actor, object, action string
	cmd, r := remoteCommand(w, &cobra.Command{
		Use: "list", Short: "List entries of the audit log, newest first", Args: exactly(),
		Example: "  postrider audit-log list --action endpoint.secret_revealed --since 7d",
	})
	flags := cmd.Flags()
	flags.StringVar(&tenant, "tenant", "", "the `tenant`'s id or uid")
	flags.StringVar(&actor, "actor", "", "who: a key's `id` or name, a user, or one of api_key, user, portal, cli and system")
	flags.StringVar(&object, "object", "", "what it was done to: an `id`")
	flags.StringVar(&action, "action", "", "what was done: "+join(audit.Actions()))
	judge(cmd, "action", among(audit.Actions()...))
	windowFlags(cmd)
	l.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, value := range map[string]string{"tenant": tenant, "actor": actor, "object": object, "action": action} {
			setQuery(query, name, value)
		}
		if err := w.setWindow(cmd, query); err != nil {
			return err
		}
		return r.show(cmd, l, []string{"audit-log"}, query, func(p page) error {
			list, err := rows[auditEntry](p)
			if err != nil {
				return err
			}
			t := newTable("AT", "ACTION", "OBJECT", "BY", "FROM", "TENANT", "DETAILS")
			for _, e := range list {
				t.add(w.clock(&e.At), e.Action, e.ObjectID, e.who(), text(e.From), text(e.TenantID), details(e.Details))
			}
			t.list(w.stdout, "entries")
			return nil
		})
	}
	return cmd
}

// details are shown without the braces around all of them, and in full.
func details(object json.RawMessage) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(object), "{"), "}")
}

// machineUser is who runs the command, for the audit log: what a command does to the database itself, no API key does.
func machineUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
