package subscriptions

// SealedColumns gives "table key column sealed column" of each of sealedColumns.
func SealedColumns() []string {
	var out []string
	for _, c := range sealedColumns {
		out = append(out, c.table+" "+c.keyID+" "+c.sealed)
	}
	return out
}

// LookAt has searches look at so many rows in one go.
func (s *Store) LookAt(n int) { s.lookAt = n }
