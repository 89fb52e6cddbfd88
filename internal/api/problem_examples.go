package api

import (
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/fault"
)

// sampleProblems show in the API's description what the answers that are errors look like: one for each status.
var sampleProblems = sampleByStatus(
	newProblem(fault.Malformed, "the query string cannot be read"),
	newProblem(fault.Unauthenticated, "the API key is missing or not known"),
	newProblem(fault.Forbidden, "this needs a key with the scope admin"),
	newProblem(fault.NotFound, "no such tenant"),
	newProblem(fault.Conflict, "another tenant has this uid"),
	newProblem(fault.PreconditionFailed, "the endpoint was changed in the meantime"),
	newProblem(fault.TooLarge, "the body is over the limit of 262144 bytes"),
	newProblem(fault.UnsupportedMedia, "the body's Content-Type has to be "+jsonType),
	problemOf(fault.InvalidAt("/url", "needs a host")),
	problemOf(fault.New(fault.Internal, "")),
	newProblem(fault.TooMany, "too many requests from this address had no good API key; it has to wait"),
	newProblem(fault.Unavailable, "the database cannot be reached"),
)

func sampleByStatus(samples ...*Problem) map[string]*Problem {
	all := make(map[string]*Problem, len(samples))
	for _, p := range samples {
		all[strconv.Itoa(p.Status)] = p
	}
	return all
}

// showSamples puts them into an operation's answers. huma by itself has one example for all statuses.
func showSamples(answers map[string]*huma.Response) {
	for status, answer := range answers {
		sample, known := sampleProblems[status]
		if media := answer.Content[problemType]; known && media != nil {
			media.Example = sample
		}
	}
}
