package dispatcher

// origin says that a delivery waits because a job put it there, together with any number of others: the value of
// deliveries.origin, where null is ordinary.
type origin int16

const (
	ordinary origin = iota
	retried         // by a job that retries many
	replayed        // by a replay: its requests say so, and say nothing about its endpoint's health
)

// laneOf is where a delivery waits. What a job put there waits with the retries: however much it is, new events go first.
func laneOf(group int64, failures, rescues int, from origin) lane {
	switch {
	case rescues >= suspectAfter:
		return laneSuspect
	case group != 0:
		return laneOrdered
	case failures > 0 || from != ordinary:
		return laneRetry
	}
	return laneFirst
}
