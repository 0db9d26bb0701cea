package main

import (
	"context"
	"iter"
	"log/slog"

	"github.com/prewarm-dev/prewarm/cri"
)

// containerRuntime is what the commands need of a runtime.
type containerRuntime interface {
	// Info is what the runtime is and can do.
	Info() cri.Info
	// Resolve asks the registry what a reference means.
	Resolve(context.Context, cri.Reference, *cri.Credential) (cri.Image, error)
	// Plan tells what pulls would do.
	Plan(context.Context, ...cri.Image) (cri.Plan, error)
	// Pull fetches and unpacks what is missing.
	Pull(context.Context, cri.Image, cri.PullOptions) iter.Seq2[cri.Progress, error]
	// Verify proves that an image is there and says by which check.
	Verify(context.Context, cri.Image) (string, error)
	// Close ends the connection.
	Close() error
}

var _ containerRuntime = (*cri.Runtime)(nil)

// connect finds the runtime of this node.
func connect(ctx context.Context, o cri.Options) (containerRuntime, error) {
	r, err := cri.Connect(ctx, o)
	if err != nil { // a nil *cri.Runtime would not be a nil interface
		return nil, err
	}
	return r, nil
}

// open connects to the runtime that the flags name.
func (a *app) open(ctx context.Context, s *shared, log *slog.Logger) (containerRuntime, error) {
	rt, err := a.connect(ctx, s.options(log))
	if err != nil && ctx.Err() == nil {
		err = &exitError{code: exitUnreachable, err: err}
	}
	return rt, err
}

// options are those of the connection to the runtime.
func (s *shared) options(log *slog.Logger) cri.Options {
	return cri.Options{
		RuntimeEndpoint: s.runtimeEndpoint, ImageEndpoint: s.imageEndpoint,
		RegistryConfigPath: s.registryConfigPath, Logger: log,
	}
}
