package timeline

import (
	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/internal/web"
)

// Spark draws an endpoint's figures small.
func Spark(s stats.Series) web.Spark {
	const succeeded = dispatcher.Succeeded
	all, failed := make([]int64, len(s.Points)), make([]int64, len(s.Points))
	for i, point := range s.Points {
		all[i] = point.Attempts.Sum()
		failed[i] = all[i] - point.Attempts.Of(succeeded)
	}
	return web.NewSpark(all, failed, web.Plural(s.Attempts.Sum(), "attempt")+", "+web.Count(s.Attempts.Sum()-s.Attempts.Of(succeeded))+" failed")
}
