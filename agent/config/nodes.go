package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

func (d *decoder) nodes(path string, n *yaml.Node, to *Nodes) {
	d.object(
		path, n,
		field{"accelerator", "", d.text("none, nvidia or any", func(path string, n *yaml.Node, text string) {
			to.Accelerator = Accelerator(text)
			if !slices.Contains(accelerators(), text) {
				d.fail(path, n, "is not a known accelerator", oneOf(text, accelerators()))
			}
		})},
		field{"matchLabels", "", d.matchLabels(&to.MatchLabels)},
		field{"matchExpressions", "", func(path string, n *yaml.Node) {
			d.list(path, n, func(path string, n *yaml.Node) {
				to.MatchExpressions = append(to.MatchExpressions, d.requirement(path, n))
			})
		}},
	)
}

func (d *decoder) matchLabels(to *map[string]string) setter {
	return func(path string, n *yaml.Node) {
		if !d.is(path, n, yaml.MappingNode, "a mapping of labels to values") {
			return
		}
		for key, value := range d.pairs(path, n) {
			at := path + "[" + plain(key.Value) + "]"
			d.labelKey(at, key, key.Value)
			text, ok := d.labelValue(at, value)
			if !ok {
				continue
			}
			if *to == nil {
				*to = map[string]string{}
			}
			(*to)[key.Value] = text
		}
	}
}

// requirement reads one entry of matchExpressions. The rules are those of k8s.io/apimachinery/pkg/labels.NewRequirement.
func (d *decoder) requirement(path string, n *yaml.Node) Requirement {
	var r Requirement
	var values *yaml.Node
	before := len(d.errs)
	d.object(
		path, n,
		field{"key", LabelInstanceType, d.text("a label such as node.kubernetes.io/instance-type", func(path string, n *yaml.Node, text string) {
			r.Key = text
			d.labelKey(path, n, text)
		})},
		field{"operator", "In", d.text("In, NotIn, Exists or DoesNotExist", func(path string, n *yaml.Node, text string) {
			r.Operator = Operator(text)
			if !slices.Contains(operators(), text) {
				d.fail(path, n, "is not a known operator", oneOf(text, operators()))
			}
		})},
		field{"values", "", func(path string, n *yaml.Node) {
			values = n
			d.list(path, n, func(path string, n *yaml.Node) {
				if text, ok := d.labelValue(path, n); ok {
					r.Values = append(r.Values, text)
				}
			})
		}},
	)
	if len(d.errs) > before { // whether the values fit would be guesswork
		return r
	}
	if values == nil {
		values = n
	}
	switch r.Operator {
	case OperatorIn, OperatorNotIn:
		if len(r.Values) == 0 {
			d.fail(join(path, "values"), values, "is empty, but "+string(r.Operator)+" compares with values", "list at least one, or write operator Exists or DoesNotExist")
		}
	case OperatorExists, OperatorDoesNotExist:
		if len(r.Values) > 0 {
			d.fail(join(path, "values"), values, "is not empty, but "+string(r.Operator)+" takes no values", "remove values, or write operator In or NotIn")
		}
	}
	return r
}

// labelKey checks the key of a Node label. Labels that the agent writes itself cannot decide what it does: the node
// would change its mind each time.
func (d *decoder) labelKey(path string, n *yaml.Node, key string) {
	prefix, _, _ := strings.Cut(key, "/")
	switch {
	case len(content.IsLabelKey(key)) > 0:
		d.fail(path, n, "is not a label key", "write prefix/name as kubectl get node --show-labels does, such as node.kubernetes.io/instance-type")
	case prefix == "prewarm.dev" || strings.HasSuffix(prefix, ".prewarm.dev"):
		d.fail(path, n, "is a label that prewarm itself writes", "select by a label that the node has before")
	}
}

func (d *decoder) labelValue(path string, n *yaml.Node) (string, bool) {
	text, ok := d.scalar(path, n, "!!str", "text")
	if ok && len(content.IsLabelValue(text)) > 0 {
		d.fail(path, n, "is not a label value", "write at most 63 letters, digits, '-', '_' and '.', with a letter or a digit at both ends")
		return "", false
	}
	return text, ok
}

func accelerators() []string {
	return []string{string(AcceleratorNone), string(AcceleratorNVIDIA), string(AcceleratorAny)}
}

func operators() []string {
	return []string{string(OperatorIn), string(OperatorNotIn), string(OperatorExists), string(OperatorDoesNotExist)}
}
