package main

import (
	"fmt"
	"strings"
)

// roles are what a process does. Each may run in as many processes as one likes, in any combination.
type roles struct {
	api        bool // takes requests
	dispatcher bool // sends deliveries
	scheduler  bool // keeps house: partitions, sweeps
}

// allRoles is what a process does unless it is told otherwise.
const allRoles = "api,dispatcher,scheduler"

var everyRole = roles{api: true, dispatcher: true, scheduler: true}

func parseRoles(text string) (roles, error) {
	var r roles
	for _, name := range strings.Split(text, ",") {
		switch strings.TrimSpace(name) {
		case "api":
			r.api = true
		case "dispatcher":
			r.dispatcher = true
		case "scheduler":
			r.scheduler = true
		default:
			return roles{}, fmt.Errorf("no such role: %s (there are %s)", quote(strings.TrimSpace(name)), allRoles)
		}
	}
	return r, nil
}

func (r roles) String() string {
	var on []string
	for _, role := range []struct {
		name string
		on   bool
	}{{"api", r.api}, {"dispatcher", r.dispatcher}, {"scheduler", r.scheduler}} {
		if role.on {
			on = append(on, role.name)
		}
	}
	return strings.Join(on, ",")
}
