//go:build race

package signer_test

const raceDetector = true
