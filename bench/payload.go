package main

import (
	"bytes"
	"strconv"
	"time"
)

// A payload is JSON of a fixed size that begins with a moment in nanoseconds since 1970, whose 19 digits can be written
// over: the receiver then knows how long it was on its way.
const (
	payloadSize  = 1 << 10
	payloadStart = `{"at":`
	payloadMid   = `,"pad":"`
	payloadEnd   = `"}`
	digits       = 19
	payloadHead  = len(payloadStart) + digits
)

func newPayload(size int) []byte {
	pad := size - payloadHead - len(payloadMid) - len(payloadEnd)
	p := append([]byte(payloadStart), strconv.FormatInt(time.Now().UnixNano(), 10)...)
	p = append(p, payloadMid...)
	p = append(p, bytes.Repeat([]byte("x"), pad)...)
	return append(p, payloadEnd...)
}

// stamp writes a moment into text whose payload begins at that place.
func stamp(text []byte, begin int, at time.Time) {
	place := text[begin+len(payloadStart):]
	strconv.AppendInt(place[:0], at.UnixNano(), 10)
}
