package config

import (
	"encoding"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time span that is written as Go writes it: 90s, 5m, 1h30m.
type Duration struct {
	time.Duration
}

var _ encoding.TextMarshaler = Duration{}

// String is the shortest form: 6h, not 6h0m0s.
func (d Duration) String() string {
	s := d.Duration.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText gives String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// duration reads a span that is not negative. A bare 0 needs no unit.
func (d *decoder) duration(to *Duration) setter {
	return func(path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
			if n.Value != "0" {
				d.fail(path, n, "has no unit", "write a number with a unit, such as 30s, 5m or 6h")
				return
			}
			*to = Duration{}
			return
		}
		text, ok := d.scalar(path, n, "!!str", "a duration such as 30s, 5m or 6h")
		if !ok {
			return
		}
		span, err := time.ParseDuration(strings.TrimSpace(text))
		switch {
		case err != nil:
			d.fail(path, n, "is no duration", durationRemedy(text))
		case span < 0:
			d.fail(path, n, "is negative", "write a positive duration, or 0 for never")
		default:
			*to = Duration{span}
		}
	}
}

// durationRemedy understands the usual slips: days and weeks, which Go's durations do not have, blanks, long unit names.
func durationRemedy(text string) string {
	s := strings.ToLower(strings.Join(strings.Fields(text), ""))
	for _, unit := range []struct{ suffix, unit string }{
		{"seconds", "s"},
		{"second", "s"},
		{"sec", "s"},
		{"minutes", "m"},
		{"minute", "m"},
		{"min", "m"},
		{"hours", "h"},
		{"hour", "h"},
		{"days", "d"},
		{"day", "d"},
		{"weeks", "w"},
		{"week", "w"},
	} {
		if rest, ok := strings.CutSuffix(s, unit.suffix); ok {
			s = rest + unit.unit
			break
		}
	}
	for suffix, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		if n, err := strconv.ParseUint(strings.TrimSuffix(s, suffix), 10, 16); err == nil && strings.HasSuffix(s, suffix) {
			s = strconv.Itoa(int(n)*hours) + "h"
		}
	}
	if span, err := time.ParseDuration(s); err == nil && span >= 0 {
		return "write " + s
	}
	return "write a number with a unit, such as 30s, 5m or 6h"
}
