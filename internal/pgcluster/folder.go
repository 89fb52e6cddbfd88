package pgcluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse says that another process has the folder's cluster running.
var ErrInUse = errors.New("another process has this PostgreSQL cluster running")

// folder is a cluster's folder:
//
//	lock          held while a process of ours uses the folder
//	cluster.json  state, readable by our user alone
//	data/         PostgreSQL's own, belonging to the user that it runs as
type folder struct {
	dir     string
	lock    *os.File
	account account
	state   state
}

// state is what must be the same at the next start.
type state struct {
	Port          int    `json:"port"`
	Password      string `json:"password"`
	AdminPassword string `json:"admin_password"`
}

func (f *folder) data() string      { return filepath.Join(f.dir, "data") }
func (f *folder) statePath() string { return filepath.Join(f.dir, "cluster.json") }

// openFolder makes the folder where it is missing, locks it and reads its state.
func openFolder(opts Options) (*folder, error) {
	dir := opts.Dir
	if opts.Ephemeral {
		made, err := makeTemporary(opts)
		if err != nil {
			return nil, err
		}
		dir = made
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder for PostgreSQL: %w", err)
	}
	f := &folder{dir: dir}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.close(opts.Ephemeral))
	}
	return f, nil
}

func (f *folder) open() error {
	if err := makeDirs(f.dir); err != nil {
		return err
	}
	if err := f.takeLock(); err != nil {
		return err
	}
	acc, err := serverAccount(f.data())
	if err != nil {
		return err
	}
	f.account = acc
	if err := acc.letIn(f.dir); err != nil {
		return err
	}
	return f.readState()
}

// takeLock keeps two processes from one folder. The kernel lets go of the lock when its process ends, however it ends.
func (f *folder) takeLock() error {
	file, err := os.OpenFile(filepath.Join(f.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock of PostgreSQL's folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		holder, _ := os.ReadFile(file.Name()) // only for the message; it may be empty for a moment
		err = errors.Join(file.Close(), err)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("%w (process %s, folder %s): stop that one, or choose another folder",
				ErrInUse, strings.TrimSpace(string(holder)), f.dir)
		}
		return fmt.Errorf("lock PostgreSQL's folder: %w", err)
	}
	f.lock = file
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("write the lock of PostgreSQL's folder: %w", err)
	}
	if _, err := file.WriteString(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		return fmt.Errorf("write the lock of PostgreSQL's folder: %w", err)
	}
	return nil
}

// readState reads the state, or makes that of a new cluster.
func (f *folder) readState() error {
	raw, err := os.ReadFile(f.statePath())
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.major() != 0:
		return fmt.Errorf("the passwords of the cluster in %s are gone (%s); remove the folder to begin anew", f.dir, f.statePath())
	case errors.Is(err, fs.ErrNotExist):
		f.state = state{Password: rand.Text(), AdminPassword: rand.Text()}
		return f.writeState()
	case err != nil:
		return fmt.Errorf("read the cluster's state: %w", err)
	}
	if err := json.Unmarshal(raw, &f.state); err != nil {
		return fmt.Errorf("read %s: %w", f.statePath(), err)
	}
	return nil
}

func (f *folder) writeState() error {
	raw, err := json.Marshal(f.state)
	if err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	next := f.statePath() + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	if err := os.Rename(next, f.statePath()); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
}

// major is the version of PostgreSQL that made the cluster; 0: it is not made yet.
func (f *folder) major() int {
	raw, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0
	}
	return major
}

// close lets go of the folder, or removes it.
func (f *folder) close(remove bool) error {
	var errs []error
	if remove {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	return errors.Join(errs...)
}

// makeDirs makes the folder and those above it that are missing. What it makes can be walked through, not listed, by the
// user that the server runs as; the umask has no say in it.
func makeDirs(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("make PostgreSQL's folder: %s is a file", dir)
		}
		return nil
	}
	if err := makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make PostgreSQL's folder: %w", err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("open PostgreSQL's folder to its server: %w", err)
	}
	return nil
}
