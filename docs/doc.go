// Package docs holds the documents' tests: what the README prints is run, and what the documents name has to be there.
// The documents themselves are the Markdown files beside it; nothing imports this package.
package docs
