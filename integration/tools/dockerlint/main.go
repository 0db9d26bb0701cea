// Command dockerlint checks a Dockerfile with BuildKit's own rules, without BuildKit: it says what breaks them, and fails then.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/opencontainers/go-digest"
)

// bare has every image be one without anything: no registry is asked what the base images are.
type bare struct{}

var _ llb.ImageMetaResolver = bare{}

// ResolveImageConfig implements llb.ImageMetaResolver.
func (bare) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`)
	return ref, digest.FromBytes(config), config, nil
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dockerlint:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, files []string) error {
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		sources := llb.NewSourceMap(nil, file, "Dockerfile", text)
		sources.Definition = &llb.Definition{} // of the file itself, which nobody builds
		results, err := dockerfile2llb.DockerfileLint(ctx, text, dockerfile2llb.ConvertOpt{
			Config: dockerui.Config{}, SourceMap: sources, MetaResolver: bare{},
		})
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if e := results.Error; e != nil {
			return fmt.Errorf("%s: %s", file, e.Message)
		}
		for _, w := range results.Warnings {
			line := int32(0)
			if len(w.Location.Ranges) > 0 {
				line = w.Location.Ranges[0].Start.Line
			}
			fmt.Printf("%s:%d: %s: %s\n", file, line, w.RuleName, w.Detail)
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%d warnings", n)
	}
	return nil
}
