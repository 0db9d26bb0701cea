package node

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// labelChanges is what is to be done to labels, by key; nil removes the label.
type labelChanges map[string]*string

var _ slog.LogValuer = labelChanges{}

// LogValue implements slog.LogValuer: the changes as kubectl label takes them.
func (c labelChanges) LogValue() slog.Value {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if value := c[key]; value != nil {
			words = append(words, key+"="+*value)
		} else {
			words = append(words, key+"-")
		}
	}
	return slog.StringValue(strings.Join(words, " "))
}

// apply makes the changes to labels.
func (c labelChanges) apply(labels map[string]string) {
	for key, value := range c {
		if value == nil {
			delete(labels, key)
		} else {
			labels[key] = *value
		}
	}
}

// difference gives what must be done to the labels of a Node so that they say the state. Keys that are not ours are not
// looked at.
func difference(s State, labels map[string]string) labelChanges {
	change := labelChanges{}
	want := func(key, value string) {
		if have, ok := labels[key]; !ok || have != value {
			change[key] = &value
		}
	}
	for key := range labels {
		name, isImage := strings.CutPrefix(key, LabelImagePrefix)
		switch {
		case key == LabelReady && (s.Readiness == NotReady || s.Readiness == Unknown && s.unsaid(labels)):
			change[key] = nil
		case isImage && s.Images != nil && !s.saysOf(name):
			change[key] = nil
		}
	}
	if s.Readiness == Ready {
		want(LabelReady, labelTrue)
	}
	for name, i := range s.Images {
		if value := labelValue(i.Digest); i.Readiness == Ready && value != "" {
			want(LabelImagePrefix+name, value)
		}
	}
	return change
}

// unsaid reports whether a required image of which nothing is known has no label of its own: then whoever said that the
// node is ready did not know that it needs this image.
func (s State) unsaid(labels map[string]string) bool {
	for name, i := range s.Images {
		if _, said := labels[LabelImagePrefix+name]; i.Required && i.Readiness == Unknown && !said {
			return true
		}
	}
	return false
}

// Labels are those of ours that a Node has which says a state, where nothing is known from before.
func (s State) Labels() map[string]string {
	labels := map[string]string{}
	difference(s, labels).apply(labels)
	return labels
}

// saysOf reports whether an image's label, if there is one, may stay: the image is ready, or it is not known.
func (s State) saysOf(name string) bool {
	i, ok := s.Images[name]
	return ok && (i.Readiness == Unknown || i.Readiness == Ready && labelValue(i.Digest) != "")
}
