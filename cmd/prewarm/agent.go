package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/agent"
	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/metrics"
	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

const (
	// envNodeName is set from the pod's spec.nodeName, by the downward API.
	envNodeName = "NODE_NAME"
	// defaultConfig is where the ConfigMap is mounted.
	defaultConfig = "/etc/prewarm/config.yaml"
	defaultListen = ":9777"
	// defaultPlaceholderNamespace and defaultPlaceholderSelector are those of HyperPod's guide to a warm pool.
	defaultPlaceholderNamespace = "overprovisioning"
	defaultPlaceholderSelector  = "app=spaces-placeholder"
	// automatic is the word of --accelerator that stands for looking at the Node.
	automatic = "auto"
)

// agentFlags are those of prewarm agent alone.
type agentFlags struct {
	node           nodeFlags
	credentials    credentialFlags
	config, listen string
	accelerator    choice
	kubeletConfigz bool
	placeholders   node.Placeholders
}

func (a *app) agent(ctx context.Context, s *shared) *cobra.Command {
	f := agentFlags{accelerator: choice{value: automatic, words: []string{
		automatic, string(config.AcceleratorNone), string(config.AcceleratorNVIDIA), string(config.AcceleratorAny),
	}}}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Keep the images of a configuration ready on this node",
		Long: `Keep the images of a configuration ready on this node, until it is told to stop: pull what is missing, prove that it
is there, watch over it, and say on the Node which images are ready. The configuration is read again when it changes.

With --standalone there is no Kubernetes: the agent does the same and says in its log what a Node would be told.

The log goes to stderr. On a terminal the image that is being pulled has bars; with -o json every change of an image is
one JSON object on stdout. The state is served over HTTP: /v1/status, /v1/watch, /metrics, /healthz and /readyz.

` + exitCodes,
		Example: `  prewarm agent --config /etc/prewarm/config.yaml --node-name "$NODE_NAME"
  prewarm agent --standalone --config images.yaml --listen 127.0.0.1:0`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(ctx, func(ctx context.Context, _ []string) error {
			return a.runAgent(ctx, s, &f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", defaultConfig, "file with the PrewarmConfiguration")
	f.node.register(cmd)
	f.credentials.register(cmd)
	flags.StringVar(&f.listen, "listen", defaultListen, "address and port of the HTTP server")
	flags.BoolVar(&f.kubeletConfigz, "kubelet-configz", false, "ask the kubelet for its thresholds, which needs the permission to get nodes/proxy\n(else its defaults are taken)")
	registerPlaceholders(cmd, &f.placeholders)
	flags.Var(&f.accelerator, "accelerator", "what this node has: "+f.accelerator.list()+
		"\n(auto asks the Node; standalone it is any, which takes every image)")
	// It fails only for a flag that does not exist or has one already, which a test would see.
	_ = cmd.RegisterFlagCompletionFunc("accelerator", cobra.FixedCompletions(f.accelerator.words, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// forced is the accelerator that the flag names; empty where the Node is to be looked at.
func (f *agentFlags) forced() config.Accelerator {
	if f.accelerator.value == automatic {
		return ""
	}
	return config.Accelerator(f.accelerator.value)
}

// runAgent makes the parts, joins them, and runs them until ctx ends or one of them fails.
func (a *app) runAgent(ctx context.Context, s *shared, f *agentFlags) (err error) {
	if err := f.node.check(a.getenv); err != nil {
		return err
	}
	show, logs, err := a.agentDisplay(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, show.Close()) }()
	log := s.logger(logs, slog.LevelInfo)
	version := buildOf(a.version).Version
	store := status.New(status.StoreOptions{Node: f.node.name, Standalone: f.node.standalone, Source: f.config, Now: time.Now})
	m, err := metrics.New(metrics.Options{Version: version, State: store.Get, Now: time.Now, Logger: log})
	if err != nil {
		return err
	}
	keychain, err := f.credentials.keychain(a.getenv, log)
	if err != nil {
		return err
	}
	tell, facts, err := f.reporter(ctx, store, m, version, log)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", f.listen, err)
	}
	log.InfoContext(ctx, "prewarm agent starts", "version", version, "address", listener.Addr().String(), "configuration", f.config)

	sources, stop := context.WithCancel(ctx)
	defer stop()
	dial := dialer{options: s.options(log)}
	loop := agent.New(agent.Options{
		Connect: dial.connect, Node: f.node.name, Keychain: keychain, Board: store, Recorder: m, Logger: log,
		Configurations: config.Watch(sources, f.config, 0), Facts: facts(sources),
	})
	handler := status.NewHandler(status.HandlerOptions{
		Store: store, Metrics: m.Handler(), Healthy: loop.Healthy, MaxWatchers: 0, Now: time.Now, Logger: log,
	})
	err = together(ctx, loop.Run, tell,
		func(ctx context.Context) error { return status.Serve(ctx, listener, handler, log) },
		func(ctx context.Context) error { return show.follow(ctx, store, log) })
	err = errors.Join(err, dial.Close())
	if err == nil {
		log.InfoContext(ctx, "prewarm agent stopped; what was fetched is kept")
	}
	return unreachable(err)
}

// together runs functions until ctx ends or one of them fails; then the others are told to end, and waited for. It gives
// the first error.
func together(ctx context.Context, functions ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(functions))
	for _, f := range functions {
		go func() { ended <- f(ctx) }()
	}
	var first error
	for range functions {
		if err := <-ended; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// unreachable gives an error of the runtime its exit code.
func unreachable(err error) error {
	switch cri.ReasonOf(err) {
	case cri.ReasonRuntimeUnavailable, cri.ReasonRuntimeUnsupported, cri.ReasonPermissionDenied:
		return &exitError{code: exitUnreachable, err: err}
	default:
		return err
	}
}

// dialer opens the runtime for the agent, which knows nothing of closing.
type dialer struct {
	options cri.Options
	runtime *cri.Runtime
}

func (d *dialer) connect(ctx context.Context) (agent.Runtime, error) {
	r, err := cri.Connect(ctx, d.options)
	if err != nil { // a nil *cri.Runtime would not be a nil interface
		return nil, err
	}
	if err := r.Lock(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	d.runtime = r
	return r, nil
}

// Close ends the connection, if there is one.
func (d *dialer) Close() error {
	if d.runtime == nil {
		return nil
	}
	return d.runtime.Close()
}
