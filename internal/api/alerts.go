package api

import (
	"context"

	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// alertView is an alert in an answer.
type alertView struct {
	ID             string  `json:"id" example:"alr_07xk9v0e8g0003f"`
	TenantID       *string `json:"tenant_id" example:"ten_07xk9v0e8g0003f" doc:"null: it is about Postrider itself."`
	EndpointID     *string `json:"endpoint_id" example:"ep_07xk9v0e8g0003f" doc:"null: it is about Postrider itself."`
	Kind           string  `json:"kind" enum:"delivery.failing,delivery.failed,endpoint.unauthorized,endpoint.blocked,endpoint.disabled,endpoint.dead,service.deliveries_late,service.canary_failed,service.no_scheduler,service.no_dispatcher" doc:"The gravest of what it gathered. Those that begin with service are about Postrider itself; keys that are bound to a tenant never see them."`
	State          string  `json:"state" enum:"open,acknowledged,resolved"`
	Count          int     `json:"count" doc:"How many findings it gathered."`
	Detail         string  `json:"detail"`
	LastDeliveryID *string `json:"last_delivery_id" doc:"A delivery to look at."`
	OpenedAt       stamp   `json:"opened_at"`
	LastAt         stamp   `json:"last_at"`
	AcknowledgedAt *stamp  `json:"acknowledged_at" nullable:"true"`
	AcknowledgedBy *string `json:"acknowledged_by"`
	ResolvedAt     *stamp  `json:"resolved_at" nullable:"true"`
	ResolvedBy     *string `json:"resolved_by" doc:"null if it was not a person: a success did, or what was wrong is well again."`
}

func viewAlert(a alert.Alert) alertView {
	v := alertView{
		ID:   id.Alert.Format(a.ID),
		Kind: a.Kind.String(), State: string(a.State), Count: a.Count, Detail: a.Detail,
		OpenedAt: stamp(a.OpenedAt), LastAt: stamp(a.LastAt),
		AcknowledgedAt: stampOf(a.AcknowledgedAt), AcknowledgedBy: a.AcknowledgedBy,
		ResolvedAt: stampOf(a.ResolvedAt), ResolvedBy: a.ResolvedBy,
	}
	if !a.Kind.OfService() {
		tenant, endpoint := id.Tenant.Format(a.Tenant), id.Endpoint.Format(a.Endpoint)
		v.TenantID, v.EndpointID = &tenant, &endpoint
	}
	if a.LastDelivery != nil {
		delivery := id.Delivery.Format(*a.LastDelivery)
		v.LastDeliveryID = &delivery
	}
	return v
}

type alertOut struct{ Body alertView }

type listAlertsIn struct {
	PageIn
	State  []string `query:"state" enum:"open,acknowledged,resolved" doc:"One, or several with commas between; all if absent."`
	Kind   []string `query:"kind" enum:"delivery.failing,delivery.failed,endpoint.unauthorized,endpoint.blocked,endpoint.disabled,endpoint.dead,service.deliveries_late,service.canary_failed,service.no_scheduler,service.no_dispatcher" doc:"One, or several with commas between; all if absent."`
	Tenant string   `query:"tenant" maxLength:"200" doc:"A tenant's id or uid."`
}

func (s *server) listAlerts(ctx context.Context, in *listAlertsIn) (*pageOut[alertView], error) {
	tenant, err := s.tenantFilter(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	f := alert.Filter{Tenant: tenant}
	for _, state := range in.State {
		f.States = append(f.States, alert.State(state))
	}
	for _, name := range in.Kind {
		kind, err := alert.ParseKind(name)
		if err != nil {
			return nil, err //nolint:wrapcheck // the schema lets no other name through
		}
		f.Kinds = append(f.Kinds, kind)
	}
	return readPage(id.Alert, in.PageIn, func(limit int, before id.ID) ([]alert.Alert, error) {
		return s.d.Alerts.List(ctx, f, limit, before)
	}, viewAlert, func(a alert.Alert) id.ID { return a.ID })
}

type alertIn struct {
	Alert string `path:"alr" doc:"The alert's id." example:"alr_07xk9v0e8g0003f"`
}

func (s *server) readAlert(ctx context.Context, in *alertIn) (*alertOut, error) {
	a, err := s.visibleAlert(ctx, in.Alert)
	if err != nil {
		return nil, err
	}
	return &alertOut{Body: viewAlert(a)}, nil
}

func (s *server) acknowledgeAlert(ctx context.Context, in *alertIn) (*alertOut, error) {
	return s.actOnAlert(ctx, in.Alert, s.d.Alerts.Acknowledge)
}

func (s *server) resolveAlert(ctx context.Context, in *alertIn) (*alertOut, error) {
	return s.actOnAlert(ctx, in.Alert, s.d.Alerts.Resolve)
}

func (s *server) actOnAlert(
	ctx context.Context, ref string, do func(context.Context, id.ID, string) (alert.Alert, error),
) (*alertOut, error) {
	a, err := s.visibleAlert(ctx, ref)
	if err != nil {
		return nil, err
	}
	if a, err = do(ctx, a.ID, caller(ctx).Name); err != nil {
		return nil, err
	}
	return &alertOut{Body: viewAlert(a)}, nil
}

func (s *server) visibleAlert(ctx context.Context, ref string) (alert.Alert, error) {
	missing := fault.New(fault.NotFound, "no such alert")
	at, err := id.Alert.Parse(ref)
	if err != nil {
		return alert.Alert{}, missing
	}
	a, err := s.d.Alerts.Get(ctx, at)
	if err == nil && !caller(ctx).MaySee(a.Tenant) {
		return alert.Alert{}, missing
	}
	return a, err
}
