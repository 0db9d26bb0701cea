package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prewarm-dev/prewarm/agent"
	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/metrics"
	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
)

// nodeFlags say which Node this is, and how the API server is reached.
type nodeFlags struct {
	name, kubeconfig string
	standalone       bool
}

func (f *nodeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "node-name", "", "name of the Node that this is (env "+envNodeName+")")
	flags.BoolVar(&f.standalone, "standalone", false, "without Kubernetes: write to no Node")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (else the pod's service account, else env KUBECONFIG)")
}

// registerPlaceholders adds the flags that say which pods are placeholders.
func registerPlaceholders(cmd *cobra.Command, p *node.Placeholders) {
	flags := cmd.Flags()
	flags.StringVar(&p.Namespace, "placeholder-namespace", defaultPlaceholderNamespace, "namespace of the placeholder pods, which are marked while their node is ready\n(empty: none are)")
	flags.StringVar(&p.Selector, "placeholder-selector", defaultPlaceholderSelector, "labels by which placeholder pods are known")
}

// check wants either a Node or none, and fills in its name from the environment.
func (f *nodeFlags) check(getenv func(string) string) error {
	if f.name == "" && !f.standalone {
		f.name = getenv(envNodeName)
	}
	if (f.name == "") != f.standalone {
		return &exitError{code: exitUsage, err: fmt.Errorf(
			"name the Node with --node-name or %s, or run without Kubernetes with --standalone, not both", envNodeName)}
	}
	return nil
}

// factsFunc gives what decides which images this node needs, until the context ends.
type factsFunc func(context.Context) <-chan config.NodeFacts

// reporter makes what tells the Node, or what stands in for it, and where the facts of this node come from.
func (f *agentFlags) reporter(
	ctx context.Context, store *status.Store, m *metrics.Metrics, version string, log *slog.Logger,
) (tell func(context.Context) error, facts factsFunc, err error) {
	if f.node.standalone {
		tell = func(ctx context.Context) error {
			node.Standalone(ctx, agent.NodeStates(ctx, store), log)
			return nil
		}
		return tell, f.fixedFacts, nil
	}
	kubeconfig, err := restConfig(f.node.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	r, err := node.NewReporter(node.Options{
		Config: kubeconfig, Node: f.node.name, UserAgent: "prewarm/" + version, AskKubelet: f.kubeletConfigz, Placeholders: f.placeholders,
		Observer: m, Problem: store.SetNodeError, Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	log.InfoContext(ctx, "tells the Node", "node", f.node.name, "apiServer", kubeconfig.Host)
	tell = func(ctx context.Context) error {
		return together(ctx,
			func(ctx context.Context) error { return r.Run(ctx, agent.NodeStates(ctx, store)) },
			func(ctx context.Context) error {
				for e := range agent.NodeEvents(ctx, store) {
					r.Post(e)
				}
				return nil
			})
	}
	facts = func(ctx context.Context) <-chan config.NodeFacts { return agent.NodeFacts(ctx, r.Facts(), f.forced()) }
	return tell, facts, nil
}

// fixedFacts are those where there is no Node to look at.
func (f *agentFlags) fixedFacts(context.Context) <-chan config.NodeFacts {
	facts := make(chan config.NodeFacts, 1)
	facts <- config.NodeFacts{Standalone: true, Accelerator: f.forced()}
	return facts
}

// restConfig finds the way to the API server: the file that is named, else the pod's service account, else KUBECONFIG.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		if c, err := rest.InClusterConfig(); err == nil {
			return c, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the API server (in a pod it is the service account, else --kubeconfig or KUBECONFIG; or --standalone): %w", err)
	}
	return c, nil
}
