package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prewarm-dev/prewarm/cri"
)

// seen is where in the file a name or a reference was first used.
type seen struct {
	path string
	line int
	text string
}

func (s seen) String() string { return fmt.Sprintf("%s (line %d)", s.path, s.line) }

// register remembers the images read so far, to find those that are given twice.
type register struct {
	names, references map[string]seen
}

// images reads the list of images and compares each with those before it.
func (d *decoder) images(c *Configuration) setter {
	r := register{names: map[string]seen{}, references: map[string]seen{}}
	return func(path string, n *yaml.Node) {
		d.list(path, n, func(path string, n *yaml.Node) {
			c.Images = append(c.Images, d.image(path, n, c.Defaults, r))
		})
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.fail(path, n, "is empty", "list at least one image, with name and reference")
		}
	}
}

func (d *decoder) image(path string, n *yaml.Node, defaults Defaults, r register) Image {
	i := Image{
		Nodes:           Nodes{Accelerator: AcceleratorAny},
		Required:        defaults.Required,
		Pin:             defaults.Pin,
		RefreshInterval: defaults.RefreshInterval,
	}
	d.object(
		path, n,
		field{"name", "sagemaker-distribution-cpu", d.name(&i.Name, r)},
		field{"reference", "host/repository:tag", d.reference(&i.Reference, r)},
		field{"nodes", "", func(path string, n *yaml.Node) { d.nodes(path, n, &i.Nodes) }},
		field{"required", "", d.boolean(&i.Required)},
		field{"pin", "", d.boolean(&i.Pin)},
		field{"refreshInterval", "", d.duration(&i.RefreshInterval)},
	)
	return i
}

// name reads what becomes the name part of a Node label, and a label of metrics.
func (d *decoder) name(to *string, r register) setter {
	return d.text("a short name such as sagemaker-distribution-cpu", func(path string, n *yaml.Node, text string) {
		if len(content.IsDNS1123Label(text)) > 0 {
			d.fail(path, n, "is not a lower-case DNS label of at most 63 characters, so the Node label image.prewarm.dev/<name> cannot have it", nameRemedy(text))
			return
		}
		if before, ok := r.names[text]; ok {
			d.fail(path, n, "is used before, in "+before.String(), "give each image a name of its own")
			return
		}
		r.names[text] = seen{path: path, line: n.Line}
		*to = text
	})
}

// nameRemedy bends a text into a name.
func nameRemedy(text string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(strings.TrimSpace(text)))
	name = strings.Trim(name, "-")
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-")
	}
	if name == "" {
		return "write lower-case letters, digits and '-'"
	}
	return "write for example " + name
}

func (d *decoder) reference(to *cri.Reference, r register) setter {
	return d.text("host/repository:tag", func(path string, n *yaml.Node, text string) {
		ref, err := cri.ParseReference(text)
		if err != nil {
			problem, remedy := err.Error(), ""
			if e, ok := errors.AsType[*cri.Error](err); ok {
				problem, remedy = e.Err.Error(), e.Remedy
			}
			d.fail(path, n, problem, remedy)
			return
		}
		key := strings.ToLower(ref.Canonical())
		if before, ok := r.references[key]; ok {
			if before.text == ref.Canonical() {
				d.fail(path, n, "is the same image as "+before.String(), "keep one entry, whose nodes cover all that need it")
			} else {
				d.fail(path, n, fmt.Sprintf("differs only by upper and lower case from %s, %s", before, before.text), "keep the spelling that the registry has")
			}
			return
		}
		r.references[key] = seen{path: path, line: n.Line, text: ref.Canonical()}
		*to = ref
	})
}
