package fault

import "net/http"

// statuses is the one place where a fault gets its HTTP status, for the API's answers and for pages.
var statuses = map[Code]int{
	Invalid:            http.StatusUnprocessableEntity,
	Malformed:          http.StatusBadRequest,
	Unauthenticated:    http.StatusUnauthorized,
	Forbidden:          http.StatusForbidden,
	NotFound:           http.StatusNotFound,
	Conflict:           http.StatusConflict,
	PreconditionFailed: http.StatusPreconditionFailed,
	TooLarge:           http.StatusRequestEntityTooLarge,
	UnsupportedMedia:   http.StatusUnsupportedMediaType,
	TooMany:            http.StatusTooManyRequests,
	Unavailable:        http.StatusServiceUnavailable,
	Blocked:            http.StatusUnprocessableEntity,
	Internal:           http.StatusInternalServerError,
	MethodNotAllowed:   http.StatusMethodNotAllowed,
	RequestTimeout:     http.StatusRequestTimeout,
}

// HTTPStatus gives the status that a fault of this code is answered with: 500 for a code that is none.
func HTTPStatus(c Code) int {
	if status, known := statuses[c]; known {
		return status
	}
	return http.StatusInternalServerError
}
