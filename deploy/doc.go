// Package deploy is what operators install beside the binary: alert rules and a dashboard, units, manifests. Its Go code
// is tests alone, which hold these files against the programs that read them (`make ops`).
package deploy
