package subscriptions

// SealedColumns gives "table key column sealed column" of each of sealedColumns.
func SealedColumns() []string {
	var out []string
	for _, c := range sealedColumns {
		out = append(out, c.table+" "+c.keyID+" "+c.sealed)
	}
	return out
}
