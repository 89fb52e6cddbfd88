package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/pgcluster"
)

// devFlags are what `postrider dev` has beside the configuration.
type devFlags struct {
	dir     string
	addr    string
	verbose bool
}

func newDev(w world) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use: "dev", Short: "Run everything on this machine, with its own PostgreSQL and a demo", Args: exactly(),
		Long: "Run everything on this machine: a PostgreSQL of its own, all roles of the server, and a demo tenant whose endpoint\n" +
			"is a built-in receiver that verifies and prints what it gets. It is kept from run to run in --dir.\n" +
			"Deliveries may go to this machine (loopback), by http:// too.",
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd, w, f) },
	}
	cmd.Flags().StringVar(&f.dir, "dir", defaultDevDir(), "`folder` to keep everything in")
	cmd.Flags().StringVar(&f.addr, "addr", "", "`host:port` of the HTTP API; short for --http.addr")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log everything that happens, not only what goes wrong")
	configFlags(cmd)
	return cmd
}

// runDev starts PostgreSQL, then a server on it, and stops them in the other order.
func runDev(cmd *cobra.Command, w world, f devFlags) (err error) {
	ctx := cmd.Context()
	if f.addr != "" {
		if err := cmd.Flags().Set("http.addr", f.addr); err != nil {
			return usagef(cmd, "--addr: %v", err)
		}
	}
	if _, err := w.loadServer(cmd); err != nil { // before anything is made or started
		return err
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return fmt.Errorf("find the folder %s: %w", f.dir, err)
	}
	out := &screen{w: w.stdout}
	cluster, err := pgcluster.Start(ctx, pgcluster.Options{
		Dir: filepath.Join(dir, "postgres"), Begun: func() { out.printf("starting PostgreSQL in %s\n", dir) },
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it had begun
		}
		return err
	}
	defer func() {
		out.printf("stopping\n")
		err = errors.Join(err, cluster.Stop())
	}()
	d := &dev{world: w, dir: dir, out: out, listCommand: devCommand(w, f)}
	if err := d.prepare(cmd, f, cluster.URL()); err != nil {
		return err
	}
	return d.run(ctx)
}

// devCommand is how another terminal calls a command that finds what runs here.
func devCommand(w world, f devFlags) string {
	command := shellQuote(w.program) + " deliveries list"
	if f.dir != defaultDevDir() {
		command += " --dir " + shellQuote(f.dir)
	}
	return command
}

// shellQuote makes a text one word for a POSIX shell.
func shellQuote(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-:=@", r)
	})
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// dev is one run of `postrider dev`.
type dev struct {
	world
	dir         string
	listCommand string
	cfg         config.Config
	state       devState
	log         zerolog.Logger
	out         *screen
}

// prepare settles the configuration: what somebody configured stays, save the database and that loopback is allowed.
func (d *dev) prepare(cmd *cobra.Command, f devFlags, databaseURL string) error {
	cfg, err := d.load(cmd)
	if err != nil {
		return err
	}
	if cfg.Source("secrets.keys") == config.SourceDefault && cfg.Source("secrets.key_file") == config.SourceDefault {
		path, err := keyFile(d.dir)
		if err != nil {
			return err
		}
		if err := cmd.Flags().Set("secrets.key_file", path); err != nil {
			return fmt.Errorf("use %s: %w", path, err)
		}
		if cfg, err = d.load(cmd, config.NeedSecrets); err != nil {
			return err
		}
	}
	if cfg.Database.URL != "" {
		d.out.printf("database.url is set and not used here: `postrider dev` has its own PostgreSQL\n")
	}
	cfg.Database.URL, cfg.Database.MigrateOnStart = databaseURL, true
	cfg.Delivery.AllowHTTP = true
	cfg.Delivery.AllowNetworks = append(cfg.Delivery.AllowNetworks,
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	if cfg.Source("log.format") == config.SourceDefault {
		cfg.Log.Format = config.LogConsole
	}
	if cfg.Source("log.level") == config.SourceDefault && !f.verbose {
		cfg.Log.Level = zerolog.WarnLevel
	}
	if d.state, err = readDevState(d.dir); err != nil {
		return err
	}
	if cfg.Bootstrap.AdminKey != "" {
		d.state.Key = cfg.Bootstrap.AdminKey
	}
	if d.state.Key == "" {
		d.state.Key = newDevKey()
	}
	cfg.Bootstrap.AdminKey = d.state.Key
	d.cfg, d.log = cfg, newLogger(d.stderr, cfg.Log)
	return nil
}

// run runs the receiver, the server and the demo until ctx ends.
func (d *dev) run(ctx context.Context) (err error) {
	receiver, err := d.listenForReceiver(ctx)
	if err != nil {
		return err
	}
	a, err := wire(ctx, d.cfg, everyRole, d.listen, d.log)
	if err != nil {
		if err = errors.Join(err, receiver.Close()); ctx.Err() != nil {
			return nil // asked to stop before it had begun
		}
		return err
	}
	d.state.URL = baseURL(a.addr)
	if err := d.state.write(d.dir); err != nil {
		return errors.Join(err, receiver.Close(), a.close())
	}
	defer func() {
		d.state.URL = ""
		err = errors.Join(err, d.state.write(d.dir))
	}()
	c, err := newClient(d.state.URL, d.state.Key)
	if err != nil {
		return errors.Join(err, receiver.Close(), a.close())
	}
	demo := &demo{dev: d, client: c, receiverURL: "http://" + receiver.Addr().String() + "/", seen: newSightings()}
	parts := append([]part{newServer(receiver, demo.receiver(), d.log).part("the receiver", "receiver.listening", d.log)}, a.parts...)
	a.parts = append(parts, part{name: "the demo", stop: callTimeout, run: demo.run})
	return a.run(ctx)
}

// portsTried is how many ports are tried, from the default one on, when nobody chose one.
const portsTried = 20

// listen opens the API's socket: on the port that was chosen, else on the default one or the next that is free.
func (d *dev) listen(ctx context.Context) (net.Listener, error) {
	l, err := listen(ctx, d.cfg.HTTP.Addr)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) || d.cfg.Source("http.addr") != config.SourceDefault {
		return l, err
	}
	host, port, splitErr := net.SplitHostPort(d.cfg.HTTP.Addr)
	first, numberErr := strconv.Atoi(port)
	if splitErr != nil || numberErr != nil {
		return nil, err
	}
	for next := first + 1; next < first+portsTried; next++ {
		if l, nextErr := listen(ctx, net.JoinHostPort(host, strconv.Itoa(next))); nextErr == nil {
			d.out.printf("port %d is taken, %d is used instead\n", first, next)
			return l, nil
		}
	}
	return nil, err
}

// listenForReceiver opens the receiver's socket on the port it had, so that what was sent to it and failed finds it
// again, or on any free one.
func (d *dev) listenForReceiver(ctx context.Context) (net.Listener, error) {
	l, err := listen(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(d.state.ReceiverPort)))
	if err != nil {
		if l, err = listen(ctx, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		d.state.ReceiverPort = addr.Port
	}
	return l, nil
}

// baseURL is where a server on this address is reached from this machine.
func baseURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return "http://" + addr.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
