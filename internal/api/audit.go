package api

import (
	"context"
	"encoding/json"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// auditView is an entry of the audit log in an answer.
type auditView struct {
	ID       string    `json:"id" example:"aud_07xk9v0e8g0003f"`
	At       stamp     `json:"at"`
	Actor    actorView `json:"actor"`
	Action   auditDone `json:"action"`
	ObjectID string    `json:"object_id" example:"ep_07xk9v0e8g0003f" doc:"What it was done to."`
	TenantID *string   `json:"tenant_id" example:"ten_07xk9v0e8g0003f" doc:"Whose thing that is; null: nobody's but the operator's."`
	From     *string   `json:"from" example:"192.0.2.7" doc:"The client's address; null: no request did it. To a key that is bound to a tenant, of an address that is not public its class alone."`
	Details  rawObject `json:"details" doc:"What there is to say beside; under changes each field that has another value now."`
}

type actorView struct {
	Kind  string  `json:"kind" enum:"api_key,user,portal,cli,system" doc:"user: in the console, by the OpenID provider; portal: in the tenant's portal; cli: a command on the database itself; system: Postrider by its rules."`
	KeyID *string `json:"key_id" example:"key_07xk9v0e8g00000"`
	Name  string  `json:"name" doc:"The key's, the user's, of the tenant whose portal it is, of the user of the machine, or of the part of Postrider."`
}

// publicClass is what egress.Class calls an address that deliveries may go to.
const publicClass = "public"

// outsider is what a tenant's own admin sees of it: where inside an operator works from, and as whom, is not theirs to know.
func (v auditView) outsider(from netip.Addr, class func(netip.Addr) string) auditView {
	if v.Actor.Kind == string(audit.ByCLI) || v.Actor.Kind == string(audit.ByUser) {
		v.Actor.Name = "operator"
	}
	if from.IsValid() && class(from) != publicClass {
		inside := class(from)
		v.From = &inside
	}
	return v
}

// auditDone is what was done.
type auditDone string

// Schema lists all that there is.
func (auditDone) Schema(huma.Registry) *huma.Schema {
	one := &huma.Schema{Type: huma.TypeString}
	for _, a := range audit.Actions() {
		one.Enum = append(one.Enum, string(a))
	}
	one.PrecomputeMessages()
	return one
}

// rawObject is a JSON object that goes out as it is stored.
type rawObject json.RawMessage

// MarshalJSON gives it as it is.
func (o rawObject) MarshalJSON() ([]byte, error) { return o, nil }

// Schema says that it may have any members.
func (rawObject) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

func viewAudit(r audit.Record) auditView {
	v := auditView{
		ID: id.Audit.Format(r.ID), At: stamp(r.At), Actor: actorView{Kind: string(r.Actor.Kind), Name: r.Actor.Name},
		Action: auditDone(r.Action), ObjectID: r.Object.Kind.Format(r.Object.ID), Details: rawObject(r.Details),
	}
	if r.Actor.Kind == audit.ByKey {
		key := id.Key.Format(r.Actor.Key)
		v.Actor.KeyID = &key
	}
	if r.Tenant != nil {
		tenant := id.Tenant.Format(*r.Tenant)
		v.TenantID = &tenant
	}
	if r.Actor.From.IsValid() {
		from := r.Actor.From.String()
		v.From = &from
	}
	return v
}

type listAuditIn struct {
	PageIn
	Tenant string    `query:"tenant" maxLength:"200" doc:"A tenant's id or uid."`
	Actor  string    `query:"actor" maxLength:"200" doc:"A key's id, a name, or a kind of actor."`
	Object string    `query:"object" maxLength:"200" doc:"The id of what it was done to."`
	Action auditDone `query:"action"`
	Since  string    `query:"since" format:"date-time" doc:"Done then or later."`
	Until  string    `query:"until" format:"date-time" doc:"Done before."`
}

func (s *server) listAudit(ctx context.Context, in *listAuditIn) (*pageOut[auditView], error) {
	var faults fault.Fields
	f := audit.Filter{
		Action: audit.Action(in.Action),
		Since:  parseTime(&faults, "?since", in.Since), Until: parseTime(&faults, "?until", in.Until),
	}
	if key, err := id.Key.Parse(in.Actor); err == nil {
		f.Key = &key
	} else {
		f.Actor = in.Actor
	}
	if in.Object != "" {
		kind, object, err := id.ParseAny(in.Object)
		faults.Add("?object", err)
		f.Object = &audit.Thing{Kind: kind, ID: object}
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	var err error
	if f.Tenant, err = s.tenantFilter(ctx, in.Tenant); err != nil {
		return nil, err
	}
	return readPage(id.Audit, in.PageIn, func(limit int, before id.ID) ([]audit.Record, error) {
		return s.d.Audit.List(ctx, f, limit, before)
	}, func(r audit.Record) auditView {
		if caller(ctx).SeesAll() {
			return viewAudit(r)
		}
		return viewAudit(r).outsider(r.Actor.From, s.d.AddressClass)
	}, func(r audit.Record) id.ID { return r.ID })
}
