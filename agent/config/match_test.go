package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

func TestDetectAcceleratorByInstanceType(t *testing.T) {
	t.Parallel()
	for want, types := range map[config.Accelerator]string{
		config.AcceleratorNVIDIA: `
			ml.g4dn.xlarge ml.g4dn.metal ml.g5.xlarge ml.g5.48xlarge ml.g6.4xlarge ml.g6e.12xlarge ml.g6e.12x ml.gr6.8xlarge ml.g7e.2xlarge
			ml.p3.2xlarge ml.p3dn.24xlarge ml.p4d.24xlarge ml.p4de.24xlarge ml.p5.48xlarge ml.p5e.48xlarge ml.p5en.48xlarge
			ml.p6-b200.48xlarge ml.p6-b300.48xlarge ml.p6e-gb200.36xlarge ml.p5
			g2.2xlarge g3.4xlarge g3s.xlarge g4dn.xlarge g5.xlarge g5g.metal g6.xlarge g6f.large gr6f.4xlarge
			p2.xlarge p3.16xlarge p4d.24xlarge p5.4xlarge p6-b200.48xlarge p4d`,
		config.AcceleratorNone: `
			ml.t3.medium ml.m5.large ml.c5.18xlarge ml.r7i.16xlarge ml.c6gn.large m7gd.large c7g.xlarge t4g.small r8g.large x2gd.metal
			g4ad.xlarge ml.g4ad.16xlarge trn1.32xlarge ml.trn2.48xlarge inf2.xlarge ml.inf1.xlarge dl1.24xlarge vt1.3xlarge f1.2xlarge hpc7g.4xlarge
			g1-small g2-standard-4 gp3 gp.large pp5.large ml.gpu.large p.large g.large ml.p ml.gr ml mlg5.xlarge ml-g5.xlarge xml.g5.xlarge
			ML.G5.xlarge g5. p5.48xlarge.extra Standard_NC24ads_A100_v4 n1-standard-4 a2-highgpu-1g p5/48xlarge`,
	} {
		for instance := range strings.FieldsSeq(types) {
			if got := config.DetectAccelerator(map[string]string{config.LabelInstanceType: instance}, nil); got != want {
				t.Errorf("%s: %s, want %s", instance, got, want)
			}
		}
	}
}

func TestDetectAcceleratorByLabelAndResource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels    map[string]string
		resources map[string]int64
		want      config.Accelerator
	}{
		"nothing known":           {nil, nil, config.AcceleratorNone},
		"label":                   {map[string]string{"nvidia.com/gpu.present": "true"}, nil, config.AcceleratorNVIDIA},
		"label of a GPU-less one": {map[string]string{"nvidia.com/gpu.present": "false"}, nil, config.AcceleratorNone},
		"label, CPU type":         {map[string]string{"nvidia.com/gpu.present": "true", config.LabelInstanceType: "m5.large"}, nil, config.AcceleratorNVIDIA},
		"type without a plugin":   {map[string]string{config.LabelInstanceType: "ml.g5.xlarge"}, map[string]int64{"cpu": 4, "nvidia.com/gpu": 0}, config.AcceleratorNVIDIA},
		"whole GPUs":              {nil, map[string]int64{"cpu": 4, "nvidia.com/gpu": 1}, config.AcceleratorNVIDIA},
		"shared GPUs":             {nil, map[string]int64{"nvidia.com/gpu.shared": 4}, config.AcceleratorNVIDIA},
		"MIG slices":              {nil, map[string]int64{"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 7}, config.AcceleratorNVIDIA},
		"no GPU left":             {nil, map[string]int64{"nvidia.com/gpu": 0}, config.AcceleratorNone},
		"others":                  {nil, map[string]int64{"amd.com/gpu": 1, "aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 1}, config.AcceleratorNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := config.DetectAccelerator(c.labels, c.resources); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestForChoosesTheImagesOfANode(t *testing.T) {
	t.Parallel()
	c := parse(t, header+`
images:
  - {name: every, reference: r.io/every}
  - {name: cpu, reference: r.io/cpu, nodes: {accelerator: none}}
  - {name: gpu, reference: r.io/gpu, nodes: {accelerator: nvidia}}
  - {name: team, reference: r.io/team, nodes: {matchLabels: {example.com/team: a, example.com/tier: ""}}}
  - name: gpu-team
    reference: r.io/gpu-team
    nodes:
      accelerator: nvidia
      matchLabels: {example.com/team: a}
      matchExpressions: [{key: example.com/zone, operator: In, values: [x, y]}, {key: example.com/off, operator: DoesNotExist}]
`)
	type set = map[string]string
	for name, n := range map[string]struct {
		node config.NodeFacts
		want string
	}{
		"CPU node":           {config.NodeFacts{Accelerator: config.AcceleratorNone}, "every cpu"},
		"GPU node":           {config.NodeFacts{Accelerator: config.AcceleratorNVIDIA}, "every gpu"},
		"not known":          {config.NodeFacts{}, "every cpu gpu"},
		"empty value counts": {config.NodeFacts{Accelerator: config.AcceleratorNone, Labels: set{"example.com/team": "a"}}, "every cpu"},
		"team's CPU node":    {config.NodeFacts{Accelerator: config.AcceleratorNone, Labels: set{"example.com/team": "a", "example.com/tier": ""}}, "every cpu team"},
		"all conditions":     {config.NodeFacts{Accelerator: config.AcceleratorNVIDIA, Labels: set{"example.com/team": "a", "example.com/zone": "y"}}, "every gpu gpu-team"},
		"one expression not": {config.NodeFacts{Accelerator: config.AcceleratorNVIDIA, Labels: set{"example.com/team": "a", "example.com/zone": "y", "example.com/off": ""}}, "every gpu"},
		"standalone, any":    {config.NodeFacts{Standalone: true, Accelerator: config.AcceleratorAny}, "every cpu gpu team gpu-team"},
		"standalone, none":   {config.NodeFacts{Standalone: true, Accelerator: config.AcceleratorNone}, "every cpu team"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, i := range c.For(n.node) {
				got = append(got, i.Name)
			}
			if diff := cmp.Diff(strings.Fields(n.want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSelectorsMeanWhatTheyMeanInKubernetes compares with the selectors of Kubernetes themselves.
func TestSelectorsMeanWhatTheyMeanInKubernetes(t *testing.T) {
	t.Parallel()
	theirs := map[config.Operator]selection.Operator{
		config.OperatorIn: selection.In, config.OperatorNotIn: selection.NotIn,
		config.OperatorExists: selection.Exists, config.OperatorDoesNotExist: selection.DoesNotExist,
	}
	values := map[config.Operator][][]string{
		config.OperatorIn: {{"a"}, {"b", ""}, {"c"}}, config.OperatorNotIn: {{"a"}, {"b", ""}, {"c"}},
		config.OperatorExists: {nil}, config.OperatorDoesNotExist: {nil},
	}
	for operator, sets := range values {
		for _, set := range sets {
			requirement, err := labels.NewRequirement("k", theirs[operator], set)
			if err != nil {
				t.Fatal(err)
			}
			c := config.Configuration{Images: []config.Image{{Nodes: config.Nodes{
				MatchExpressions: []config.Requirement{{Key: "k", Operator: operator, Values: set}},
			}}}}
			for _, node := range []map[string]string{nil, {"k": ""}, {"k": "a"}, {"k": "b"}, {"other": "a"}} {
				got := len(c.For(config.NodeFacts{Labels: node})) == 1
				if want := requirement.Matches(labels.Set(node)); got != want {
					t.Errorf("%s on %v: %v, want %v", requirement, node, got, want)
				}
			}
		}
	}
}

func TestWordsOfFlags(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"none", "nvidia", "any"} {
		if got, err := config.ParseAccelerator(word); err != nil || string(got) != word {
			t.Errorf("%s: %q, %v", word, got, err)
		}
	}
	if _, err := config.ParseAccelerator("gpu"); err == nil || err.Error() != `accelerator "gpu" is not known; did you mean nvidia?` {
		t.Error(err)
	}
	for _, word := range []string{"auto", "cri"} {
		if got, err := config.ParseEngine(word); err != nil || got != cri.EngineCRI {
			t.Errorf("%s: %q, %v", word, got, err)
		}
	}
	if _, err := config.ParseEngine("parallel"); err == nil || !strings.Contains(err.Error(), "is not in this release") {
		t.Error(err)
	}
	if _, err := config.ParseEngine(""); err == nil {
		t.Error("an empty engine was accepted")
	}
}
