// Command prewarm pulls images onto this node through the node's own CRI socket and shows, layer by layer, how far it is:
// once, for given references, or for good, as the agent of a node.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	containerdlog "github.com/containerd/log"
	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's roots, where the system has none: the image has nothing but this binary
)

// version is set when the binary is built: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	os.Exit(execute())
}

// execute runs the command line until it ends or a signal comes; a second signal ends the process at once.
func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// containerd's packages log to a global logger, in a format of its own, what we tell in ours.
	_ = containerdlog.SetLevel("fatal") // a level that exists
	a := app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, connect: connect, version: version}
	return a.run(ctx, os.Args[1:])
}
