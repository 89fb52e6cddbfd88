package dispatcher

import "time"

// Unmeasured gives Metrics for who wants no figures.
func Unmeasured() Metrics { return unmeasured{} }

type unmeasured struct{}

func (unmeasured) Attempt(string, int, time.Duration) {}
func (unmeasured) Delivered(time.Duration)            {}
func (unmeasured) InFlight(int)                       {}
func (unmeasured) Claimed(int, time.Duration)         {}
func (unmeasured) Recorded(int, time.Duration)        {}
func (unmeasured) RecordFailed()                      {}
func (unmeasured) Rescued(int)                        {}
func (unmeasured) LeasesLost(int)                     {}
