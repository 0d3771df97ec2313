package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/view/web"
)

// webAddr is the default address of the page.
const webAddr = "127.0.0.1:7878"

func (a *app) webCommand() *cobra.Command {
	addr, tokenFile, index := webAddr, "", ""
	cmd := &cobra.Command{
		Use:   "web [DIR]",
		Short: "Show a folder of results in a browser, including runs in progress",
		Long: `Serves a web page of all runs below DIR (default out): the findings of each run,
figures that zoom, rows to filter, failures with their final output, live progress,
side-by-side comparison of runs, and the history of a point over many runs. It changes
nothing in DIR. Indexes of large journals are cached in the user's cache folder (--index),
so that they open faster the next time.

By default only this host can open the page. On other addresses (--addr 0.0.0.0:7878) a
token is required: the printed address contains it, and programs send it as
"Authorization: Bearer TOKEN". The token is random unless --token-file sets it. The
connection is not encrypted; use ssh -L on networks that you do not trust.`,
		Example:     fmt.Sprintf("  %[1]s web\n  %[1]s web out --addr 127.0.0.1:0\n  %[1]s web out/memory", a.name),
		Annotations: cleansUp(codes{exitGood: "ended by Ctrl-C", exitFailed: "cannot serve"}),
		Args:        arguments(0, 1, "at most one folder of results, such as out"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "out"
			if len(args) > 0 {
				dir = args[0]
			}
			switch index {
			case "":
				if cache, err := os.UserCacheDir(); err == nil {
					index = filepath.Join(cache, "kernbench", "web")
				}
			case "none":
				index = ""
			}
			return a.serve(cmd.Context(), dir, addr, tokenFile, index)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", addr, "serve at this `HOST:PORT`; port 0 chooses a free one")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "require the token in this `FILE`, even on the loopback address")
	cmd.Flags().StringVar(&index, "index", "",
		"cache indexes of large journals in this `FOLDER` (default: in the user's cache folder; none disables the cache)")
	return cmd
}

// thisProgram identifies this build of the program, so that another build does not reuse its
// cached indexes.
func thisProgram() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
}

// minTokenBytes is the smallest accepted length of a user's token, in bytes. Shorter tokens are easy to guess.
const minTokenBytes = 16

// serve serves the folder until the context ends.
func (a *app) serve(ctx context.Context, dir, addr, tokenFile, index string) error {
	if info, err := os.Stat(dir); err != nil {
		return usage(fmt.Errorf("no folder of results: %w", err))
	} else if !info.IsDir() {
		return usage(fmt.Errorf("%s is not a folder: want one with results, such as out", dir))
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usage(fmt.Errorf("--addr %s: %w: want HOST:PORT, such as %s", addr, err, webAddr))
	}
	opts := web.Options{Dir: dir, Bench: a.bench, Index: index, Build: thisProgram()}
	if tokenFile != "" {
		text, err := infile.Read(tokenFile, infile.Config)
		if err != nil {
			return usage(fmt.Errorf("reading the token: %w", err))
		}
		if opts.Token = strings.TrimSpace(string(text)); len(opts.Token) < minTokenBytes ||
			strings.ContainsAny(opts.Token, " \t\r\n;,\"\\") {
			return usage(fmt.Errorf("the token in %s is unsuitable: want one word of at least %d letters and digits", tokenFile,
				minTokenBytes))
		}
	}
	ip, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && ip.IsLoopback()
	if !local && opts.Token == "" {
		opts.Token = web.NewToken()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serving at %s: %w (choose another address with --addr %s)", addr, err,
			net.JoinHostPort(host, "0"))
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // cannot fail for a listener
	opts.Cookie = "kernbench_" + port                  // browsers share cookies between all ports of a host
	address := "http://" + net.JoinHostPort(shownHost(host, ip), port) + "/"
	if opts.Token != "" {
		address += "?token=" + opts.Token
	}
	a.stdout.Printf("%s at %s (Ctrl-C ends it)\n", dir, address)
	return listen(ctx, web.New(opts).HTTP(), l)
}

// shownHost returns the host for the printed address: this host's name if the server listens on
// all addresses.
func shownHost(host string, ip netip.Addr) string {
	if host == "" || ip.IsValid() && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return name
		}
	}
	return host
}

// listen serves until the context ends. Open connections, such as live views, are then closed.
func listen(ctx context.Context, server *http.Server, l net.Listener) error {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
