package alert

// What the tests look into.
const (
	DueBucketsSQL = dueBucketsSQL
	ResolveSQL    = resolveSQL
)
