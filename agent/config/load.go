package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest file that is read, in bytes: the limit of a ConfigMap.
const MaxSize = 1 << 20

// Load reads and checks the file at path. What is wrong inside the file comes as Errors; a file that cannot be read, as
// the operating system's error.
func Load(path string) (*Configuration, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// read takes no more than one byte beyond MaxSize, so that Parse sees that there is too much.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration cannot be read: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("configuration cannot be read: %w", err)
	}
	return data, nil
}

// Parse checks data, YAML or JSON, and fills in the defaults. source names it in errors, which are of type Errors and
// hold everything that is wrong. A file is taken whole or not at all: a part of it would be a state of nodes that nobody
// wrote down.
func Parse(source string, data []byte) (*Configuration, error) {
	d := &decoder{file: source}
	c := Default()
	if root := d.document(data); root != nil {
		d.configuration(c, root)
	}
	if err := d.result(); err != nil {
		return nil, err
	}
	return c, nil
}

// document gives the root of the only YAML document in data, or nil after noting why there is none.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > MaxSize {
		d.add(1, 1, "", "", fmt.Sprintf("is larger than %d bytes", MaxSize), "this is no configuration, or one that no ConfigMap can hold")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !d.readable(data) {
		return nil
	}
	roots, err := documents(data)
	switch {
	case err != nil:
		d.syntax(data, err)
	case len(roots) == 0:
		d.add(1, 1, "", "", "is empty", "write at least apiVersion, kind and one of images")
	case len(roots) > 1:
		d.add(roots[1].Line, roots[1].Column, "", "", "is a second document", "write all images into the first one and leave --- away")
		fallthrough
	default:
		return roots[0]
	}
	return nil
}

// documents gives the roots of all YAML documents in data but the empty ones, such as after a closing ---.
func documents(data []byte) ([]*yaml.Node, error) {
	var roots []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return nil, err
		case len(doc.Content) > 0 && !isNull(doc.Content[0]):
			roots = append(roots, doc.Content[0])
		}
	}
}

// readable notes the first character that YAML 1.2 does not allow (chapter 5.1), with its position, which the YAML
// library does not tell. NUL bytes are what a power cut leaves behind, UTF-16 what some editors write.
func (d *decoder) readable(data []byte) bool {
	line, column := 1, 0
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		column++
		switch {
		case r == utf8.RuneError && size == 1:
			d.add(line, column, "", "", fmt.Sprintf("byte 0x%02x is not UTF-8", rest[0]), "save the file as UTF-8")
			return false
		case r == '\n':
			line, column = line+1, 0
		case r == '\t' || r == '\r' || r == '\u0085':
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\ufeff' || r == '\ufffe' || r == '\uffff':
			d.add(line, column, "", "", fmt.Sprintf("character %U is not allowed in YAML", r), "remove it, or write the file again if it was damaged")
			return false
		}
		rest = rest[size:]
	}
	return true
}

// syntaxError is how the YAML library words an error. Its line is often that of the list or mapping around, and for some
// errors it is one too low, or missing.
var syntaxError = regexp.MustCompile(`^yaml: (?:line \d+: )?(.*)`)

// syntax notes an error of the YAML library, which stops at the first. Its line is the first one with which the beginning
// of the file has that error.
func (d *decoder) syntax(data []byte, err error) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	line := 1 + sort.Search(len(lines)-1, func(i int) bool {
		_, e := documents(bytes.Join(lines[:i+1], nil))
		return e != nil && e.Error() == err.Error()
	})
	problem := err.Error()
	if m := syntaxError.FindStringSubmatch(problem); m != nil {
		problem = m[1]
	}
	remedy := "look at the indentation, the quotes and the brackets in this line and the one above"
	if strings.Contains(problem, "cannot start any token") {
		remedy = "indent with blanks, not with tabs, and put text with special characters in quotes"
	}
	d.add(line, 1, "", "", "is no valid YAML: "+problem, remedy)
}
