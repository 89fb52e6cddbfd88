// Package client enqueues events: over HTTP, from anywhere, or in a pgx transaction on Postrider's own PostgreSQL.
package client
