//go:build interop

package portal

// With receivers' libraries, all languages are there.
const allLanguages = true
