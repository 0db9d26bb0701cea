package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
	"github.com/prewarm-dev/prewarm/cri"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    all is well
  1    something failed: an image could not be pulled or planned, or the agent could not go on
  2    the command line is wrong: unknown command, flag or value, missing argument
  3    the container runtime cannot be reached, may not be used, or is no CRI runtime
  130  interrupted (Ctrl-C, SIGTERM); what was fetched is kept and the next pull goes on from there
A malformed reference counts as an image that failed: the others are done, and the exit code is 1.`

// app is the process: where it writes, what it reads of its environment, and how it finds the runtime.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	connect        func(context.Context, cri.Options) (containerRuntime, error)
	version        string
}

// run runs one command line and gives the exit code. Whatever goes wrong is told on stderr, once.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root(ctx)
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	failed, ran := errors.AsType[*exitError](err)
	if !ran { // cobra refused the command line
		fmt.Fprintf(a.stderr, "prewarm: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(a.stderr, "prewarm: %s\n", view.Clean(err.Error()))
	return failed.code
}

// exitError is an error of a command that ran, and the exit code that it means.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// running makes a cobra command of a function. Its errors mean exitFailed where they do not say otherwise; after a signal
// only that is told, since all else comes of it.
func running(ctx context.Context, f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		err := f(ctx, args)
		_, known := errors.AsType[*exitError](err)
		switch {
		case err == nil || known:
			return err
		case ctx.Err() != nil && (errors.Is(err, context.Canceled) || cri.ReasonOf(err) == cri.ReasonCanceled):
			return &exitError{code: exitInterrupted, err: errors.New("interrupted")}
		default:
			return &exitError{code: exitFailed, err: err}
		}
	}
}

// references asks for at least one argument.
func references(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name at least one image reference, such as docker.io/library/debian:12")
	}
	return nil
}

func (a *app) root(ctx context.Context) *cobra.Command {
	root := &cobra.Command{
		Use:   "prewarm",
		Short: "Pull images onto this node before somebody waits for them",
		Long: `prewarm pulls images onto this node through the node's own CRI socket, shows layer by layer how far it is,
and proves that they are there: present, unpacked, with the digest that was asked for.

` + exitCodes,
		Example: `  prewarm pull public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu
  prewarm plan -o json docker.io/library/debian:12
  prewarm agent --config /etc/prewarm/config.yaml`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var s shared
	s.register(root)
	root.AddCommand(a.agent(ctx, &s), a.pull(ctx, &s), a.plan(ctx, &s), a.cleanup(ctx, &s), a.status(ctx, &s), a.versionCommand(ctx, &s))
	return root
}
