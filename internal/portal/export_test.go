package portal

// Patterns gives the routes, for the tests that go through all of them.
func Patterns() (visitors, anyone []string) {
	for _, r := range (&pages{}).routes() {
		if r.May == nil {
			anyone = append(anyone, r.Pattern)
			continue
		}
		visitors = append(visitors, r.Pattern)
	}
	return visitors, anyone
}
