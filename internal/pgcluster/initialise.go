package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// initialise makes the cluster where there is none. It is made beside its place and moved there when it is whole, so that
// one that was broken off is never taken for a good one.
func (f *folder) initialise(ctx context.Context, bin binaries, ephemeral bool) error {
	if f.major() != 0 {
		return nil
	}
	making := filepath.Join(f.dir, "data.new")
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("remove a half-made cluster: %w", err)
	}
	if err := os.Mkdir(making, 0o700); err != nil {
		return fmt.Errorf("make the cluster's data folder: %w", err)
	}
	if err := f.account.own(making); err != nil {
		return err
	}
	var err error
	// Text sorts by code point, the same everywhere; C.UTF-8 knows letters beyond ASCII too, where the system has it.
	for _, locale := range []string{"C.UTF-8", "C"} {
		if err = f.initdb(ctx, bin, making, locale, ephemeral); err == nil || !strings.Contains(err.Error(), "locale") {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := os.Rename(making, f.data()); err != nil {
		return fmt.Errorf("put the new cluster in its place: %w", err)
	}
	return nil
}

func (f *folder) initdb(ctx context.Context, bin binaries, data, locale string, ephemeral bool) (err error) {
	// initdb takes the password from a file alone, and as its own user.
	secret := filepath.Join(f.dir, "password.tmp")
	if err := os.WriteFile(secret, []byte(f.state.AdminPassword), 0o600); err != nil {
		return fmt.Errorf("hand initdb a password: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(secret)) }()
	if err := f.account.own(secret); err != nil {
		return err
	}
	args := []string{
		"--pgdata=" + data, "--username=" + adminRole, "--pwfile=" + secret, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=" + locale, "--lc-messages=C", "--no-instructions",
	}
	if ephemeral {
		args = append(args, "--no-sync")
	}
	cmd := bin.command(f, "initdb", args...)
	out, err := runUntil(ctx, cmd)
	if err != nil {
		return fmt.Errorf("make the cluster: initdb: %w: %s", err, lastLines(out))
	}
	return nil
}

// runUntil runs a command to its end or to ctx's, and gives what it printed.
func runUntil(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out tail
	p, err := spawn(cmd, &out)
	if err != nil {
		return "", err
	}
	select {
	case <-p.done:
		return out.String(), p.err
	case <-ctx.Done():
		return out.String(), errors.Join(context.Cause(ctx), p.end(immediate))
	}
}

// settings are the server's command-line arguments. What is given there goes over postgresql.conf, so a cluster that an
// older Postrider made gets today's settings.
func (c *Cluster) settings() []string {
	all := map[string]string{
		"listen_addresses":        loopback,
		"port":                    strconv.Itoa(c.dir.state.Port),
		"unix_socket_directories": "",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if c.opts.Ephemeral {
		maps.Copy(all, map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
		if !c.opts.durable() {
			all["max_wal_size"] = "256MB" // it may lie in memory
		}
	}
	maps.Copy(all, c.opts.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// provision makes the role and the database where they are missing. Neither CREATE takes parameters; the password is made
// of letters and digits (crypto/rand.Text).
func provision(ctx context.Context, adminURL, password string, mayCreate bool) (err error) {
	conn, err := pgx.Connect(ctx, adminURL)
	if err != nil {
		return fmt.Errorf("connect to the new server: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var haveRole, haveProducer, haveDatabase bool
	err = conn.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), EXISTS (SELECT FROM pg_roles WHERE rolname = $2),
    EXISTS (SELECT FROM pg_database WHERE datname = $1)`,
		Role, ProducerRole).Scan(&haveRole, &haveProducer, &haveDatabase)
	if err != nil {
		return fmt.Errorf("look for the role and the database: %w", err)
	}
	if !haveRole {
		create := `CREATE ROLE ` + Role + ` LOGIN PASSWORD '` + password + `'`
		if mayCreate {
			create += ` CREATEDB`
		}
		if _, err := conn.Exec(ctx, create); err != nil {
			return fmt.Errorf("make the role: %w", err)
		}
	}
	if !haveProducer { // Role may not make roles, so the migrations find it there
		if _, err := conn.Exec(ctx, `CREATE ROLE `+ProducerRole+` NOLOGIN`); err != nil {
			return fmt.Errorf("make the producers' role: %w", err)
		}
	}
	if !haveDatabase {
		if _, err := conn.Exec(ctx, `CREATE DATABASE `+Role+` OWNER `+Role); err != nil {
			return fmt.Errorf("make the database: %w", err)
		}
	}
	return nil
}
