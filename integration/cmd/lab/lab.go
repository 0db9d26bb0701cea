package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// options are the command's flags.
type options struct {
	dir       string
	noCluster bool
	rate      int
	node      string
	size      int64
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.dir, "dir", "", "folder to make the lab's own folder in, which is removed at the end (default: the system's for temporary files)")
	flags.BoolVar(&o.noCluster, "no-cluster", false, "start neither etcd nor the API server")
	flags.IntVar(&o.rate, "rate", 0, "limit of the registry for each connection, in bytes per second (default: none)")
	flags.StringVar(&o.node, "node", "lab-node", "name of the Node to create")
	flags.Int64Var(&o.size, "size", images.DemoSize, "bytes of files in both images together")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q: there are only flags, see -help", flags.Arg(0))
	case o.rate < 0:
		return o, fmt.Errorf("-rate %d: want bytes per second, or 0 for no limit", o.rate)
	case o.size < 1<<20:
		return o, fmt.Errorf("-size %d: want at least %d bytes", o.size, 1<<20)
	}
	return o, nil
}

// lab is what runs, and how it is stopped: last things first.
type lab struct {
	dir   string
	stops []func() error
	info  io.Writer
}

// run starts everything, prints to stdout what a shell can take as it is, and to stderr what it does; it stops everything
// when ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "prewarm-lab-")
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	l := &lab{dir: dir, info: stderr}
	l.stops = append(l.stops, func() error { return os.RemoveAll(dir) })
	defer func() {
		l.say("stopping")
		for len(l.stops) > 0 {
			last := len(l.stops) - 1
			err = errors.Join(err, l.stops[last]())
			l.stops = l.stops[:last]
		}
	}()
	text, err := l.start(ctx, o)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return fmt.Errorf("print the environment: %w", err)
	}
	l.say("ready; Ctrl-C stops it")
	<-ctx.Done()
	return nil
}

func (l *lab) say(what string) {
	_, _ = fmt.Fprintf(l.info, "# %s %s\n", time.Now().Format(time.TimeOnly), what)
}

// start starts one component after the other and gives what to print.
func (l *lab) start(ctx context.Context, o options) (string, error) {
	l.say("registry: building two images of this machine's files, which takes a while the first time")
	refs, err := l.startRegistry(ctx, o)
	if err != nil {
		return "", err
	}
	l.say("containerd")
	c, err := harness.StartContainerd(ctx, filepath.Join(l.dir, "cd"), harness.ContainerdOptions{})
	if err != nil {
		return "", err
	}
	l.stops = append(l.stops, c.Stop)
	crictl, err := harness.Binary("crictl")
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("export PATH=%s:$PATH\nexport CRI_CONFIG_FILE=%s\nexport CONTAINER_RUNTIME_ENDPOINT=%s\n",
		filepath.Dir(crictl), c.CrictlConfig(), c.Endpoint())
	if !o.noCluster {
		kubeconfig, err := l.startCluster(ctx, o.node)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("export KUBECONFIG=%s\nexport NODE_NAME=%s\n", kubeconfig, o.node)
	}
	return text + refs, nil
}

// startRegistry starts the registry with both images, and gives comments that name them.
func (l *lab) startRegistry(ctx context.Context, o options) (string, error) {
	reg, demos, err := harness.StartDemoRegistry(ctx, filepath.Join(l.dir, "registry"), o.size)
	if err != nil {
		return "", err
	}
	l.stops = append(l.stops, reg.Close)
	if o.rate > 0 {
		reg.Inject(harness.GetBlob(""), harness.Rate(o.rate))
	}
	var text strings.Builder
	text.WriteString("# images:\n")
	for _, img := range demos {
		_, _ = fmt.Fprintf(&text, "#   %s  %d MB in %d layers\n", img.Reference, img.Size()/1e6, len(img.Layers))
	}
	return text.String(), nil
}

// startCluster starts an API server with one Node and gives its kubeconfig.
func (l *lab) startCluster(ctx context.Context, node string) (string, error) {
	l.say("etcd and the API server")
	etcd, err := harness.StartEtcd(ctx, filepath.Join(l.dir, "etcd"))
	if err != nil {
		return "", err
	}
	l.stops = append(l.stops, etcd.Stop)
	api, err := harness.StartAPIServer(ctx, filepath.Join(l.dir, "api"), etcd.URL, harness.APIServerOptions{ServiceAccounts: false, Args: nil})
	if err != nil {
		return "", err
	}
	l.stops = append(l.stops, api.Stop)
	if _, err := api.CreateNode(ctx, node, nil); err != nil {
		return "", err
	}
	return api.Kubeconfig(), nil
}
