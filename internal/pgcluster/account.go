package pgcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that the server runs as. PostgreSQL refuses to run as root, so there it is another one.
type account struct {
	name     string
	uid, gid uint32
	switched bool // it is not the user that we run as
}

// serverAccount is ourselves, or for root the user that an existing data folder belongs to, else `postgres`, which the
// server's package makes, else `nobody`.
func serverAccount(data string) (account, error) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid()) //nolint:gosec // the kernel's ids have 32 bits
	if uid != 0 {
		return account{name: "the current user", uid: uid, gid: gid}, nil
	}
	if info, err := os.Stat(data); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return account{name: fmt.Sprintf("with uid %d", stat.Uid), uid: stat.Uid, gid: stat.Gid, switched: true}, nil
		}
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("read the uid of %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("read the gid of %s: %w", name, err)
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is no other user to run it as: %w", errors.Join(errs...))
}

// attributes make a child run as the account, in a process group of its own, so that Ctrl-C on the terminal reaches us
// alone and we end the server last, and end with us.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	endWithParent(attr)
	return attr
}

// letIn opens the cluster's folder itself to the account and makes sure that the way to it is open. Folders above are
// others' and stay as they are.
func (a account) letIn(dir string) error {
	if !a.switched {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at PostgreSQL's folder: %w", err)
	}
	if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
		return fmt.Errorf("open PostgreSQL's folder to its server: %w", err)
	}
	closed, err := a.closedAbove(dir)
	if err != nil {
		return err
	}
	if closed != "" {
		return fmt.Errorf("PostgreSQL does not run as root, and its user (%s) cannot get to %s: %s is closed to it; "+
			"choose a folder elsewhere, such as /var/lib/postrider", a.name, dir, closed)
	}
	return nil
}

// closedAbove gives the folder nearest to the root that the account may not walk through on the way to dir; "": none.
func (a account) closedAbove(dir string) (string, error) {
	whole, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("look at PostgreSQL's folder: %w", err)
	}
	closed := ""
	for at := whole; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return "", fmt.Errorf("look at the way to PostgreSQL's folder: %w", err)
		}
		if !a.mayEnter(info) {
			closed = at
		}
		if at == filepath.Dir(at) {
			return closed, nil
		}
	}
}

func (a account) mayEnter(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// own hands a file or folder that we made to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("hand %s to the user that PostgreSQL runs as: %w", path, err)
	}
	return nil
}
