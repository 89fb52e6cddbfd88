package lint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the project's folder, seen from here.
const root = "../.."

// program is the binary that the files start, built once.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "postrider-lint-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "postrider")
	build := exec.Command("go", "build", "-C", root, "-o", program, "./cmd/postrider")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	return m.Run()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// mustStart says what keeps a command line of a container from starting with an environment: a command or a flag that there is
// not, a variable that is no key, a value that is none. A server's configuration has to be sound as a whole.
func mustStart(t *testing.T, args []string, environ map[string]string) {
	t.Helper()
	var env []string
	for name, value := range environ {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	ask := func(env, args []string) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = t.TempDir(), env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("postrider %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	switch {
	case len(args) == 0:
		t.Error("no command")
	case args[0] == "serve":
		ask(env, []string{"config", "check"})
		mustHaveRoles(t, args[1:])
	case args[0] == "migrate": // what it needs of the configuration is the database alone
		ask(env, []string{"config", "print"})
		ask(nil, append(slices.Clone(args), "--help"))
	default:
		ask(nil, append(slices.Clone(args), "--help"))
	}
}

// mustHaveRoles judges the arguments of serve. What it gives no fault for before it opens the database, it would start with.
func mustHaveRoles(t *testing.T, args []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "postrider: database.url") {
		t.Errorf("postrider serve %s: it does not get as far as to miss a database: %s", strings.Join(args, " "), out)
	}
}

// roles gives the roles of a command line, all if it names none; nil if it is no server's.
func roles(args []string) []string {
	if len(args) == 0 || args[0] != "serve" {
		return nil
	}
	if at := slices.Index(args, "--roles"); at >= 0 && at+1 < len(args) {
		return strings.Split(args[at+1], ",")
	}
	return []string{"api", "dispatcher", "scheduler"}
}

// mustHaveEveryRole wants command lines that together do all there is to do.
func mustHaveEveryRole(t *testing.T, lines [][]string) {
	t.Helper()
	for _, role := range []string{"api", "dispatcher", "scheduler"} {
		if !slices.ContainsFunc(lines, func(args []string) bool { return slices.Contains(roles(args), role) }) {
			t.Errorf("nobody has the role %s", role)
		}
	}
}
