//go:build !interop

package portal

// Elsewhere those are tried that the machine has.
const allLanguages = false
