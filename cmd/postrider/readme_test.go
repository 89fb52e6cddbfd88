package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script is a printed snippet in a shell that has the program in its path, in a folder of its own.
func script(t *testing.T, env []string, code string) *process {
	t.Helper()
	dir := t.TempDir()
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "postrider")); err != nil {
		t.Fatal(err)
	}
	p := &process{exec.Command("bash", "-euc", code), newWatched(), make(chan error, 1)}
	p.Dir, p.Stdout, p.Stderr = dir, p.out, p.out
	p.Env = append([]string{mainVariable + "=1", "PATH=" + dir + ":" + os.Getenv("PATH")}, env...)
	p.begin(t)
	return p
}

// features gives the rows of the README's table of features.
func features(t *testing.T) (rows [][2]string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "| feature | the command that shows it |\n| --- | --- |\n")
	if !found {
		t.Fatal("the README has no table of features")
	}
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 2 {
			break
		}
		rows = append(rows, [2]string{strings.TrimPrefix(cells[0], "| "), strings.Trim(strings.TrimSuffix(cells[1], " |"), "`")})
	}
	return rows
}

// Each feature's command does what it says, in the order of the table. The examples, and the tests that some name, run by themselves.
func TestTheReadmesFeaturesAreThere(t *testing.T) {
	t.Parallel()
	env := clientEnv(t, goCLI(t, serverEnv(t), "serve"))
	must(t, env, "tenants", "create", "Demo", "--uid", "demo")
	api := strings.TrimPrefix(env[0], "POSTRIDER_URL=")
	env = append(env, "KEY="+adminKey)
	rows := features(t)
	for _, row := range rows {
		feature, command := row[0], row[1]
		switch name, _, _ := strings.Cut(command, " "); name {
		case "examples/run":
			if _, err := os.Stat("../../examples/" + strings.TrimPrefix(command, "examples/run ")); err != nil {
				t.Errorf("%s: %v", feature, err)
			}
		case "make":
			testsNamedBy(t, feature, command)
		default:
			want, says := exitDone, ""
			switch {
			case strings.HasPrefix(command, "postrider verify"):
				want, says = exitFailed, "NOT verified" // it is to find something
			case strings.HasPrefix(command, "postrider event-types put"):
				want, says = exitFailed, "/payload/total: is required" // its second half is refused
			case strings.HasPrefix(command, "postrider endpoints replay"):
				says = "succeeded, 1 of 1" // what came before the endpoint
			}
			var receiver *process
			if strings.HasPrefix(command, "postrider listen") { // until the next row has sent something
				continue
			}
			if strings.HasPrefix(command, "postrider trigger") {
				receiver = script(t, env, rowThat(t, rows, "postrider listen"))
				receiver.out.await(t, listening)
			}
			run := script(t, env, strings.ReplaceAll(command, "http://127.0.0.1:8080", api))
			if code := run.exit(t); code != want || !strings.Contains(run.out.String(), says) {
				t.Errorf("%s: exit %d\n%s\n%s", feature, code, command, run.out)
			}
			if receiver != nil && receiver.exit(t) != exitDone {
				t.Errorf("listen: %s", receiver.out)
			}
		}
	}
	if len(rows) < 15 {
		t.Errorf("only %d features", len(rows))
	}
}

func rowThat(t *testing.T, rows [][2]string, begins string) string {
	t.Helper()
	for _, row := range rows {
		if strings.HasPrefix(row[1], begins) {
			return row[1]
		}
	}
	t.Fatalf("no row has %s", begins)
	return ""
}

// testsNamedBy looks whether the tests that a line of make names are there.
func testsNamedBy(t *testing.T, feature, command string) {
	t.Helper()
	_, pkg, _ := strings.Cut(command, "PKG=./")
	pkg, _, _ = strings.Cut(pkg, " ")
	_, pattern, _ := strings.Cut(command, "-run ")
	pattern, _, _ = strings.Cut(pattern, " ")
	files, err := filepath.Glob("../../" + pkg + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func Test"+pattern) {
			return
		}
	}
	t.Errorf("%s: there is no test of %s for %q", feature, pkg, command)
}
