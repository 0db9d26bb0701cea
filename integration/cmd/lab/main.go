// Command lab runs the real components on this machine until it is told to stop: a registry with two images, containerd,
// and an API server with a Node. It prints what to export to use them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		// stopped while it was starting
	default:
		_, _ = fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
