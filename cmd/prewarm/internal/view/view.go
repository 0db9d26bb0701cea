// Package view renders the progress of pulls, and plans, for people and for programs: bars on a terminal, plain lines in
// a log, JSON lines in a pipe, and tables. What is drawn is computed by pure functions of cri's values.
package view

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
)

// Outcome is what became of one reference of a command.
type Outcome string

// The outcomes.
const (
	Pulled   Outcome = "pulled"
	Present  Outcome = "already present"
	Failed   Outcome = "failed"
	NotTried Outcome = "not tried" // the command was interrupted before its turn came
)

// Result is how the pull of one reference ended.
type Result struct {
	// Progress is the last one; its phase is ready or failed.
	Progress cri.Progress
	Outcome  Outcome
	// Err is what went wrong; nil where nothing did.
	Err error
	// Took is the time from the first question to the end.
	Took time.Duration
}

// Message gives an error without the reference and the reason, which stand beside it: the cause and what to do.
func Message(reference string, err error) string {
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*cri.Error](err)
	if !ok {
		return oneLine(err.Error())
	}
	s := oneLine(e.Err.Error())
	for _, known := range []string{reference, string(e.Reason)} {
		s = strings.TrimPrefix(s, known+": ")
	}
	if !strings.Contains(e.Noun, reference) {
		s = e.Noun + ": " + s
	}
	if e.Remedy != "" && !strings.Contains(s, e.Remedy) {
		s += " (" + e.Remedy + ")"
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// Clean takes out of a text what would move a cursor or change colours: some of it comes from registries.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, s)
}

// Name gives an argument as one word; one that is none, and so no reference either, is quoted.
func Name(arg string) string {
	arg = strings.TrimSpace(arg)
	if arg == "" || strings.ContainsFunc(arg, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return strconv.Quote(arg)
	}
	return arg
}

// short gives a digest as people tell digests apart: the algorithm and 12 hexadecimal digits.
func short(d digest.Digest) string {
	if d == "" {
		return ""
	}
	return d.Algorithm().String() + ":" + hex12(d)
}

// hex12 gives the first 12 hexadecimal digits of a digest.
func hex12(d digest.Digest) string {
	_, hex, _ := strings.Cut(string(d), ":")
	return hex[:min(12, len(hex))]
}

// count counts the layers that are in one of the states.
func count(layers []cri.LayerProgress, states ...cri.LayerState) int {
	n := 0
	for _, l := range layers {
		for _, s := range states {
			if l.State == s {
				n++
			}
		}
	}
	return n
}
