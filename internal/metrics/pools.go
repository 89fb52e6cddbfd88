package metrics

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// NewPools makes the figures of this process's pools of database connections, by a name for each; those that are nil have none.
// They are read when somebody asks for them.
func NewPools(pools map[string]*pgxpool.Pool) prometheus.Collector {
	figure := func(name, help string, kind prometheus.ValueType, read func(*pgxpool.Stat) float64) poolFigure {
		return poolFigure{prometheus.NewDesc(name, help, []string{"pool"}, nil), kind, read}
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return poolFigures{pools, []poolFigure{
		figure("postrider_db_connections_max", "Connections that the pool may have.", gauge,
			func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) }),
		figure("postrider_db_connections_in_use", "Connections that somebody works with.", gauge,
			func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) }),
		figure("postrider_db_connections_idle", "Connections that are open and free.", gauge,
			func(s *pgxpool.Stat) float64 { return float64(s.IdleConns()) }),
		figure("postrider_db_acquires_total", "Connections that were asked for and had.", counter,
			func(s *pgxpool.Stat) float64 { return float64(s.AcquireCount()) }),
		figure("postrider_db_waits_total", "Of these, those that had to wait for a free one or a new one.", counter,
			func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) }),
		figure("postrider_db_wait_seconds_total", "How long all of them waited together.", counter,
			func(s *pgxpool.Stat) float64 { return s.EmptyAcquireWaitTime().Seconds() }),
		figure("postrider_db_connects_total", "Connections that were opened.", counter,
			func(s *pgxpool.Stat) float64 { return float64(s.NewConnsCount()) }),
	}}
}

type poolFigure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*pgxpool.Stat) float64
}

type poolFigures struct {
	pools   map[string]*pgxpool.Pool
	figures []poolFigure
}

// Describe says what there is; see prometheus.Collector.
func (p poolFigures) Describe(to chan<- *prometheus.Desc) {
	for _, f := range p.figures {
		to <- f.desc
	}
}

// Collect reads the pools.
func (p poolFigures) Collect(to chan<- prometheus.Metric) {
	for name, pool := range p.pools {
		if pool == nil {
			continue
		}
		stat := pool.Stat()
		for _, f := range p.figures {
			to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.read(stat), name)
		}
	}
}
