package config

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder walks a YAML tree along the schema, and goes on after an error to find the others. It never follows an alias,
// so its work is bounded by the size of the file.
type decoder struct {
	file string
	errs Errors
	more int
}

// setter reads a value into where it was told to when it was made, or notes why it cannot.
type setter func(path string, n *yaml.Node)

// field is one field of an object. It is required if it has an example, which the remedy then shows.
type field struct {
	name, example string
	set           setter
}

// fail notes what is wrong with the value n.
func (d *decoder) fail(path string, n *yaml.Node, problem, remedy string) {
	value := ""
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		value = n.Value
	}
	d.add(n.Line, n.Column, path, value, problem, remedy)
}

// object reads a mapping with known fields, in the order of the list given. A field without a value counts as absent, as
// in Kubernetes.
func (d *decoder) object(path string, n *yaml.Node, fields ...field) {
	if !d.is(path, n, yaml.MappingNode, "a mapping with "+strings.Join(names(fields), ", ")) {
		return
	}
	values := map[string]*yaml.Node{}
	for key, value := range d.pairs(path, n) {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == key.Value }) {
			d.add(key.Line, key.Column, join(path, key.Value), "", "is not a known field", fieldRemedy(key.Value, fields))
			continue
		}
		values[key.Value] = value
	}
	for _, f := range fields {
		switch value, ok := values[f.name]; {
		case ok && !isNull(value):
			f.set(join(path, f.name), value)
		case f.example == "":
		case ok:
			d.add(value.Line, value.Column, join(path, f.name), "", "has no value", "write "+f.name+": "+f.example)
		default:
			d.add(n.Line, n.Column, join(path, f.name), "", "is missing", "write "+f.name+": "+f.example)
		}
	}
}

func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return all
}

// pairs gives keys and values of a mapping, each key once.
func (d *decoder) pairs(path string, n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		first := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			line, twice := first[key.Value]
			switch {
			case key.Kind != yaml.ScalarNode:
				d.add(key.Line, key.Column, path, "", "has a key that is "+describe(key), "keys are plain text")
			case key.ShortTag() == "!!merge":
				d.add(key.Line, key.Column, path, "", "has a YAML merge key", "write the fields out")
			case twice:
				d.add(key.Line, key.Column, join(path, key.Value), "", fmt.Sprintf("is given twice, first in line %d", line), "remove one of them")
			default:
				first[key.Value] = key.Line
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// list reads a sequence, entry by entry.
func (d *decoder) list(path string, n *yaml.Node, each func(path string, n *yaml.Node)) {
	if !d.is(path, n, yaml.SequenceNode, "a list") {
		return
	}
	for i, entry := range n.Content {
		each(fmt.Sprintf("%s[%d]", path, i), entry)
	}
}

// is notes a value of another kind than wanted.
func (d *decoder) is(path string, n *yaml.Node, kind yaml.Kind, want string) bool {
	switch n.Kind {
	case kind:
		return true
	case yaml.AliasNode:
		d.fail(path, n, "is a YAML alias (*"+n.Value+")", "write the value itself: aliases are not followed")
	default:
		d.fail(path, n, "is "+describe(n), "write "+want)
	}
	return false
}

// scalar gives the text of a value whose YAML type is tag.
func (d *decoder) scalar(path string, n *yaml.Node, tag, want string) (string, bool) {
	if !d.is(path, n, yaml.ScalarNode, want) {
		return "", false
	}
	if got := n.ShortTag(); got != tag {
		remedy := "write " + want
		if tag == "!!str" && !isNull(n) {
			remedy += fmt.Sprintf("; if %s is what you mean, put it in quotes: %q", n.Value, n.Value)
		}
		d.fail(path, n, "is "+describe(n), remedy)
		return "", false
	}
	return n.Value, true
}

// text reads a string that is not empty and gives it to check.
func (d *decoder) text(want string, check func(path string, n *yaml.Node, text string)) setter {
	return func(path string, n *yaml.Node) {
		text, ok := d.scalar(path, n, "!!str", want)
		switch {
		case !ok:
		case strings.TrimSpace(text) == "":
			d.fail(path, n, "is empty", "write "+want)
		default:
			check(path, n, text)
		}
	}
}

func (d *decoder) boolean(to *bool) setter {
	return func(path string, n *yaml.Node) {
		if _, ok := d.scalar(path, n, "!!bool", boolRemedy(n.Value)); !ok {
			return
		}
		if err := n.Decode(to); err != nil { // such as !!bool maybe
			d.fail(path, n, "is neither true nor false", "write true or false")
		}
	}
}

// integer reads a whole number from low to high.
func (d *decoder) integer(to *int, low, high int) setter {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	if high == math.MaxInt {
		want = fmt.Sprintf("a whole number of at least %d", low)
	}
	return func(path string, n *yaml.Node) {
		if _, ok := d.scalar(path, n, "!!int", want+", without quotes and unit"); !ok {
			return
		}
		var i int
		if err := n.Decode(&i); err != nil || i < low || i > high {
			d.fail(path, n, "is out of range", "write "+want)
			return
		}
		*to = i
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe names the type of a value.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
	}
	switch tag := n.ShortTag(); tag {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a truth value"
	case "!!timestamp":
		return "a date"
	case "!!null":
		return "nothing"
	default:
		return "of type " + tag
	}
}

// join is the path of a field.
func join(path, name string) string {
	if path == "" {
		return plain(name)
	}
	return path + "." + plain(name)
}

// plain is a key as it may stand in a path: as it is where that can be read, else quoted.
func plain(key string) string {
	if key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" {
		return shorten(key, 120)
	}
	return strconv.Quote(shorten(key, 120))
}
