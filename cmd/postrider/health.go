package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthPatience is how long `postrider health` waits for an answer: a second longer than /readyz waits for the database.
const healthPatience = 3 * time.Second

func newHealth(w world) *cobra.Command {
	var base string
	var live bool
	cmd := &cobra.Command{
		Use: "health", Short: "Ask the server on this machine whether it is ready, as a health check", Args: exactly(),
		Long: "Ask the server of this configuration, at http.addr on this machine, whether it is ready (/readyz): its database answers,\n" +
			"and what its roles are for gets on. The exit code is 0 if it is, and 1 if it is not or does not answer within 3 s.\n" +
			"For the health check of a container, where there is no other program.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/readyz"
			if live {
				path = "/livez"
			}
			client := &http.Client{
				Timeout:       healthPatience,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			if base != "" {
				client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
				return checkHealth(cmd.Context(), w.stdout, client, trimBase(base)+path)
			}
			cfg, err := w.load(cmd)
			if err != nil {
				return err
			}
			host, port, err := net.SplitHostPort(cfg.HTTP.Addr)
			if err != nil {
				return fmt.Errorf("read http.addr: %w", err)
			}
			if port == "0" {
				return errors.New("http.addr has port 0, which is any: say by --url where the server listens")
			}
			// The address is dialled as it is listened on: one without a host, or 0.0.0.0, is this machine. No proxy comes between.
			client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", cfg.HTTP.Addr)
			}}
			if host == "" {
				host = "localhost"
			}
			return checkHealth(cmd.Context(), w.stdout, client, "http://"+net.JoinHostPort(host, port)+path)
		},
	}
	cmd.Flags().StringVar(&base, "url", "", "ask the server at this `URL` instead; the configuration is not read")
	cmd.Flags().BoolVar(&live, "live", false, "ask whether it answers at all (/livez), be its database there or not")
	judge(cmd, "url", checkBase)
	configFlags(cmd, "http.addr")
	return cmd
}

// checkHealth asks once, and prints one line if the answer is yes.
func checkHealth(ctx context.Context, out io.Writer, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask for the health: %w", err)
	}
	req.Header.Set("User-Agent", userAgent())
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for the health: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
			return fmt.Errorf("%s answers %s: %s", url, resp.Status, problem.Detail)
		}
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	fmt.Fprintln(out, "ok:", url)
	return nil
}
