package node

import (
	"context"
	"iter"
	"log/slog"
	"maps"
)

// Labels are those of ours that a Node has which says a state, where nothing is known from before.
func (s State) Labels() map[string]string {
	labels := map[string]string{}
	for key, value := range difference(s, nil) {
		labels[key] = *value
	}
	return labels
}

// Standalone stands in for a Reporter where there is no Node: it logs what would be written, until states end. It writes
// nothing anywhere.
func Standalone(ctx context.Context, states iter.Seq[State], log *slog.Logger) {
	var before map[string]string
	for s := range states {
		labels := s.Labels()
		if maps.Equal(before, labels) {
			continue
		}
		changes := difference(s, before)
		for key := range before {
			if _, ok := labels[key]; !ok {
				changes[key] = nil
			}
		}
		log.InfoContext(ctx, "standalone: a Node would get these labels", "labels", changes)
		before = labels
	}
}
