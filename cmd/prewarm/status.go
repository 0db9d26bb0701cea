package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/agent/fleet"
	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
)

// Where the agents are, as manifests/base/agent has it.
const (
	defaultAgentNamespace = "prewarm-system"
	defaultAgentSelector  = "app.kubernetes.io/name=prewarm,app.kubernetes.io/component=agent"
	agentPort             = 9777
	// pipeWidth is how wide a node's layers are drawn where there is no terminal, and everyLayer is room for all of them.
	pipeWidth, everyLayer = 100, 1000
)

// statusFlags are those of prewarm status alone.
type statusFlags struct {
	kubeconfig, namespace, selector string
	port                            int
}

func (a *app) status(ctx context.Context, s *shared) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Say which nodes of the cluster are warm, and why others are not",
		Long: `Say which nodes of the cluster are warm, and why others are not: what the agent of each node says, asked through the
API server with your own kubeconfig. It needs the permission to list the agents' pods and to get pods/proxy in their namespace.

With the name of one node it shows every layer; with -o json all that the agents say, as one list.

` + exitCodes,
		Example: `  prewarm status
  prewarm status -o json | jq '.[] | select(.status.ready | not) | .node'
  prewarm status ip-10-0-1-7.ec2.internal`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(ctx, func(ctx context.Context, args []string) error {
			return a.runStatus(ctx, s, &f, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (else the pod's service account, else env KUBECONFIG)")
	flags.StringVar(&f.namespace, "agent-namespace", defaultAgentNamespace, "namespace of the agents")
	flags.StringVar(&f.selector, "agent-selector", defaultAgentSelector, "labels of the agents' pods")
	flags.IntVar(&f.port, "agent-port", agentPort, "port on which the agents listen")
	return cmd
}

func (a *app) runStatus(ctx context.Context, s *shared, f *statusFlags, names []string) error {
	kubeconfig, err := restConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	all, err := fleet.New(fleet.Options{
		Config: kubeconfig, UserAgent: "prewarm-status/" + buildOf(a.version).Version, Namespace: f.namespace, Selector: f.selector, Port: f.port,
	})
	if err != nil {
		return err
	}
	nodes, err := all.Nodes(ctx, names...)
	if err != nil {
		return err
	}
	if missing := without(nodes, names); missing != nil {
		err = fmt.Errorf("no agent runs on %q: is it a node that the DaemonSet chooses?", missing)
	}
	switch {
	case s.output.value == jsonl:
		return errors.Join(err, json.NewEncoder(a.stdout).Encode(append([]fleet.Node{}, nodes...)))
	case len(names) == 1 && len(nodes) == 1:
		return errors.Join(err, view.NodeDetail(a.stdout, nodes[0], view.Canvas{
			Width: cmp.Or(a.width(), pipeWidth), Height: everyLayer, Color: a.width() > 0 && a.color(s), Now: time.Now(),
		}))
	case len(nodes) == 0 && err != nil:
		return err
	default:
		return errors.Join(err, view.Fleet(a.stdout, nodes, time.Now(), a.width()))
	}
}

// without gives the names that no node has.
func without(nodes []fleet.Node, names []string) (missing []string) {
	found := map[string]bool{}
	for _, n := range nodes {
		found[n.Name] = true
	}
	for _, name := range names {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
