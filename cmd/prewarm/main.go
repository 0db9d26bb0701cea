// Command prewarm pulls images onto this node through the node's own CRI socket and shows, layer by layer, how far it is:
// once, for given references, or for good, as the agent of a node.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	containerdlog "github.com/containerd/log"
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
	// AWS's helper would keep tokens in a file of the home folder.
	_ = os.Setenv("AWS_ECR_DISABLE_CACHE", "true") // a name that is one
	a := app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, connect: connect, version: version}
	return a.run(ctx, os.Args[1:])
}
