package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgtest"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// What operators are told to ask the database can be asked, and the two questions whether anything is missing say no of a database in
// which nothing is.
func TestOperatorsSQLRuns(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"docs/scaling.md", "docs/failover.md"} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			pool, asked := pgtest.Pool(t), 0
			for _, block := range sqlBlock.FindAllStringSubmatch(read(t, document), -1) {
				for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), ";\n") {
					asked++
					rows, err := pool.Query(t.Context(), strings.TrimSuffix(statement, ";"))
					if err != nil {
						t.Fatalf("%s\n%v", statement, err)
					}
					answers, err := pgx.CollectRows(rows, pgx.RowToMap)
					if err != nil {
						t.Errorf("%s\n%v", statement, err)
					}
					if document == "docs/failover.md" && (len(answers) != 1 || answers[0]["count"] != int64(0)) {
						t.Errorf("%s\n%v", statement, answers)
					}
				}
			}
			if asked < 2 {
				t.Errorf("%d statements were found", asked)
			}
		})
	}
}
