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

	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/view/web"
)

// webAddr is where the page is served unless another address is named.
const webAddr = "127.0.0.1:7878"

func (a *app) webCommand() *cobra.Command {
	addr, tokenFile, index := webAddr, "", ""
	cmd := &cobra.Command{
		Use:   "web [DIR]",
		Short: "Show a folder of results in a browser, also while runs are under way",
		Long: `Serves a page over all runs below DIR (out): what each found, with figures to zoom
into, rows to filter, failures with their last words; what is under way, as it
happens; runs beside each other, and a point over many runs. It only reads: what it made of
large journals, so that they open at once the next time, it keeps in the user's own cache (--index).

The page is for this host alone. Elsewhere (--addr 0.0.0.0:7878) it is served only
to who shows a token: the address that is printed has it, programs send it as
"Authorization: Bearer TOKEN". It is a new one each time, or that of --token-file.
The connection is not encrypted: over a network that is not yours use ssh -L.

Exit status: 0 when it is ended by Ctrl-C, 1 it cannot serve, 2 wrong usage.`,
		Example: fmt.Sprintf("  %[1]s web\n  %[1]s web out --addr 127.0.0.1:0\n  %[1]s web out/memory", a.name),
		Args:    arguments(0, 1, "at most one folder of results, such as out"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "out"
			if len(args) > 0 {
				dir = args[0]
			}
			switch index {
			case "":
				index = userIndex(a.environ)
			case "none":
				index = ""
			}
			return a.serve(cmd.Context(), dir, addr, tokenFile, index)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", addr, "serve at this `HOST:PORT`; port 0 takes one that is free")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "demand the token in this `FILE`, also on the loopback address")
	cmd.Flags().StringVar(&index, "index", "",
		"keep what was made of large journals in this `FOLDER` (default the user's cache; none keeps nothing)")
	return cmd
}

// userIndex is where the index lies unless another folder is named; empty where the user has no
// place for it.
func userIndex(environ []string) string {
	if dir := jobenv.Variable(environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kernbench", "web")
	}
	if dir := jobenv.Variable(environ, "HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".cache", "kernbench", "web")
	}
	return ""
}

// thisProgram tells one build of the program from another.
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

// leastToken is the length from which a token of one's own is not guessed.
const leastToken = 16

// serve shows the folder until the context ends.
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
		text, err := os.ReadFile(tokenFile)
		if err != nil {
			return usage(fmt.Errorf("reading the token: %w", err))
		}
		if opts.Token = strings.TrimSpace(string(text)); len(opts.Token) < leastToken ||
			strings.ContainsAny(opts.Token, " \t\r\n;,\"\\") {
			return usage(fmt.Errorf("the token in %s is no good: want one word of at least %d letters and digits", tokenFile,
				leastToken))
		}
	}
	ip, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && ip.IsLoopback()
	if !local && opts.Token == "" {
		opts.Token = web.NewToken()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serving at %s: %w (another address can be chosen: --addr %s)", addr, err,
			net.JoinHostPort(host, "0"))
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it is one of ours
	opts.Cookie = "kernbench_" + port                  // browsers keep one set of cookies for all ports
	address := "http://" + net.JoinHostPort(shownHost(host, ip), port) + "/"
	if opts.Token != "" {
		address += "?token=" + opts.Token
	}
	fmt.Fprintf(a.stdout, "%s at %s (Ctrl-C ends it)\n", dir, address)
	return listen(ctx, web.New(opts).HTTP(), l)
}

// shownHost is the host by which a browser finds an address that is all of this host's.
func shownHost(host string, ip netip.Addr) string {
	if host == "" || ip.IsValid() && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return name
		}
	}
	return host
}

// listen answers until the context ends; who still follows a run is cut off.
func listen(ctx context.Context, server *http.Server, l net.Listener) error {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
