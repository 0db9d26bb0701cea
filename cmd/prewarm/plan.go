package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/agent/credentials"
	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
	"github.com/prewarm-dev/prewarm/cri"
)

func (a *app) plan(ctx context.Context, s *shared) *cobra.Command {
	var f credentialFlags
	cmd := &cobra.Command{
		Use:   "plan REFERENCE...",
		Short: "Say what a pull would fetch and unpack, without doing it",
		Long: `Say what pulls of the images, in this order, would fetch and unpack, and what the disk would be like, without doing
it. A layer that several images share is counted with the first. What is estimated is marked with ~.

With -o json the plan is one JSON object; its member errors has the references of which nothing could be found out.

` + exitCodes,
		Example: `  prewarm plan public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu
  prewarm plan -o json docker.io/library/debian:12 | jq .fetch`,
		Args:              references,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(ctx, func(ctx context.Context, args []string) error {
			return a.runPlan(ctx, s, &f, args)
		}),
	}
	f.register(cmd)
	return cmd
}

func (a *app) runPlan(ctx context.Context, s *shared, f *credentialFlags, args []string) (err error) {
	log := s.logger(a.stderr, slog.LevelWarn)
	keychain, err := f.keychain(a.getenv, log)
	if err != nil {
		return err
	}
	rt, err := a.open(ctx, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	var images []cri.Image
	var failed []view.Failure
	for _, arg := range args {
		img, err := resolve(ctx, rt, keychain, arg)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, view.NewFailure(view.Name(arg), err))
			continue
		}
		images = append(images, img)
	}
	plan, err := rt.Plan(ctx, images...)
	if err != nil {
		return err
	}
	v := view.NewPlan(plan, rt.Info(), failed)
	switch {
	case s.output.value == jsonl:
		err = v.JSON(a.stdout)
	case len(args) > len(failed) || len(args) > 1:
		err = v.Table(a.stdout, a.width())
	}
	return errors.Join(err, verdict(failed, len(args), s.output.value == text))
}

func resolve(ctx context.Context, rt containerRuntime, k *credentials.Keychain, arg string) (img cri.Image, err error) {
	ref, err := cri.ParseReference(arg)
	if err != nil {
		return img, err
	}
	err = k.Try(ctx, ref, func(c *cri.Credential) error {
		img, err = rt.Resolve(ctx, ref, c)
		return err
	})
	return img, err
}
