// Command demo shows the main job of prewarm on this machine: it starts a private containerd and a registry with two
// images, runs the agent on them, takes one image away behind the agent's back, and shows it coming back. It removes
// everything that it made.
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
	err := run(ctx, os.Args[1:], os.Stdout)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case interrupted:
		_, _ = fmt.Fprintln(os.Stderr, "demo: interrupted; everything that it made is removed")
		os.Exit(130)
	default:
		_, _ = fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
