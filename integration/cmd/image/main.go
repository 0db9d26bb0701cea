// Command image makes prewarm's container image of binaries that are built already: an index with an image for each platform, each
// of one layer with one file, and beside it what they are made of. No engine is needed, and the same binaries give the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/prewarm-dev/prewarm/integration/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	out := flags.String("out", "", "folder for the image")
	version := flags.String("version", "devel", "version of what is in it")
	revision := flags.String("revision", "", "commit that it was built from")
	created := flags.Int64("created", 0, "time of the image, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	push := flags.String("push", "", "reference to push the image to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o := image.Options{Version: *version, Revision: *revision, Created: time.Unix(*created, 0).UTC(), Binaries: map[string]string{}}
	for _, pair := range flags.Args() {
		platform, file, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("argument %q: write it as linux/amd64=FILE", pair)
		}
		o.Binaries[platform] = file
	}
	index, err := image.Build(o)
	if err != nil {
		return err
	}
	sizes, err := image.Write(index, o, *out)
	if err != nil {
		return err
	}
	for _, line := range sizes {
		fmt.Println(line)
	}
	if *push == "" {
		return nil
	}
	ref, err := name.ParseReference(*push)
	if err != nil {
		return fmt.Errorf("PUSH: %w", err)
	}
	if err := image.Push(ctx, index, o, ref, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", ref, digest)
	return nil
}
