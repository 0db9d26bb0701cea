package config

import (
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/prewarm-dev/prewarm/cri"
)

// configuration reads the whole file. Defaults come before images, which start from them.
func (d *decoder) configuration(c *Configuration, root *yaml.Node) {
	d.object(
		"", root,
		field{"apiVersion", APIVersion, d.exactly(APIVersion)},
		field{"kind", Kind, d.exactly(Kind)},
		field{"defaults", "", func(path string, n *yaml.Node) {
			d.object(
				path, n,
				field{"refreshInterval", "", d.duration(&c.Defaults.RefreshInterval)},
				field{"pin", "", d.boolean(&c.Defaults.Pin)},
				field{"required", "", d.boolean(&c.Defaults.Required)},
			)
		}},
		field{"images", "[{name: …, reference: …}]", d.images(c)},
		field{"pull", "", func(path string, n *yaml.Node) {
			d.object(
				path, n,
				field{"maxParallelImages", "", d.integer(&c.Pull.MaxParallelImages, 1, math.MaxInt)},
				field{"stallTimeout", "", d.duration(&c.Pull.StallTimeout)},
				field{"engine", "", d.engine(&c.Pull.Engine)},
			)
		}},
		field{"disk", "", func(path string, n *yaml.Node) {
			d.object(path, n, field{"headroomPercent", "", d.integer(&c.Disk.HeadroomPercent, 0, 99)})
		}},
		field{"startupTaint", "", func(path string, n *yaml.Node) {
			d.object(path, n, field{"failOpenAfter", "", d.duration(&c.StartupTaint.FailOpenAfter)})
		}},
	)
}

// exactly reads a text that can only be one.
func (d *decoder) exactly(want string) setter {
	return d.text(want, func(path string, n *yaml.Node, text string) {
		switch {
		case text == want:
		case text == "ConfigMap":
			d.fail(path, n, "is the ConfigMap around the configuration", "give the text under its data")
		default:
			d.fail(path, n, "is not what this release reads", "write "+want)
		}
	})
}

func (d *decoder) engine(to *cri.Engine) setter {
	return d.text("auto or cri", func(path string, n *yaml.Node, text string) {
		engine, problem, remedy := resolveEngine(text)
		if problem != "" {
			d.fail(path, n, problem, remedy)
			return
		}
		*to = engine
	})
}

// The words for engines that are not engines themselves.
const (
	engineAuto     = "auto"
	engineParallel = "parallel"
)

// resolveEngine says which engine a word stands for, or what is wrong with the word.
func resolveEngine(word string) (engine cri.Engine, problem, remedy string) {
	switch word {
	case engineAuto, string(cri.EngineCRI):
		return cri.EngineCRI, "", ""
	case engineParallel:
		return "", "is not in this release", "write auto, which will choose it once it is, or cri"
	default:
		return "", "is not a known engine", oneOf(word, []string{engineAuto, string(cri.EngineCRI)})
	}
}
