package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what binary this is.
type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// buildOf completes the version that the linker set by what the Go tool recorded.
func buildOf(version string) build {
	b := build{Version: version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	for _, v := range []string{info.Main.Version, "(devel)"} {
		if b.Version == "" {
			b.Version = v
		}
	}
	return b
}

func (a *app) versionCommand(ctx context.Context, s *shared) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Say which prewarm this is",
		Example:           "  prewarm version\n  prewarm version -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(ctx, func(context.Context, []string) error {
			b := buildOf(a.version)
			if s.output.value == jsonl {
				return json.NewEncoder(a.stdout).Encode(b)
			}
			_, err := fmt.Fprintf(a.stdout, "prewarm %s (%s, %s)\n", b.Version, b.GoVersion, b.Platform)
			return err
		}),
	}
}
