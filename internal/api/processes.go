package api

import (
	"context"

	"github.com/postrider/postrider/internal/watch"
)

// processView is a process in an answer.
type processView struct {
	Roles              []string `json:"roles" example:"[\"api\",\"dispatcher\"]" doc:"What it does: api, dispatcher, scheduler."`
	State              string   `json:"state" enum:"working,stuck,dead" doc:"stuck: it lives, and a part of it does not get on; dead: it was not heard of for watch.dead_after. The worst of its roles."`
	Host               string   `json:"host"`
	PID                int      `json:"pid"`
	Version            string   `json:"version"`
	StartedAt          stamp    `json:"started_at"`
	SeenAt             stamp    `json:"seen_at" doc:"When it said last that it lives."`
	DispatcherWorkedAt *stamp   `json:"dispatcher_worked_at" nullable:"true" doc:"When it looked for deliveries last and could; null without the role."`
	SchedulerWorkedAt  *stamp   `json:"scheduler_worked_at" nullable:"true" doc:"When it looked for what is to be done last and could; null without the role."`
}

type processesOut struct {
	Body struct {
		Data       []processView `json:"data"`
		NextCursor *string       `json:"next_cursor" doc:"Always null: they come all at once."`
		Unknown    int           `json:"unknown" doc:"How many processes there are beside of an older version, which do not say what they are."`
	} `nameHint:"Processes"`
}

func (s *server) listProcesses(ctx context.Context, _ *struct{}) (*processesOut, error) {
	fleet, err := s.d.Processes(ctx)
	if err != nil {
		return nil, err
	}
	out := &processesOut{}
	out.Body.Data, out.Body.Unknown = make([]processView, 0, len(fleet.Processes)), fleet.Unknown
	for _, p := range fleet.Processes {
		out.Body.Data = append(out.Body.Data, viewProcess(p, fleet))
	}
	return out, nil
}

func viewProcess(p watch.Process, fleet watch.Fleet) processView {
	return processView{
		Roles: p.Roles, State: string(p.Overall(fleet.DeadAfter, fleet.At)), Host: p.Host, PID: p.PID, Version: p.Version,
		StartedAt: stamp(p.StartedAt), SeenAt: stamp(p.SeenAt),
		DispatcherWorkedAt: stampOf(p.DispatcherWorkedAt), SchedulerWorkedAt: stampOf(p.SchedulerWorkedAt),
	}
}
