package node

import (
	"context"
	"iter"
	"log/slog"
)

// Standalone stands in for a Reporter where there is no Node: it logs what would be written, until states end. It writes
// nothing anywhere.
func Standalone(ctx context.Context, states iter.Seq[State], log *slog.Logger) {
	labels := map[string]string{}
	for s := range states {
		changes := difference(s, labels)
		if len(changes) == 0 {
			continue
		}
		log.InfoContext(ctx, "standalone: a Node would get these labels", "labels", changes)
		changes.apply(labels)
	}
}
