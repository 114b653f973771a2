// SPDX-License-Identifier: BSD-3-Clause

package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
)

// Log writes a line for each peer, in the order of their names. Call it once a minute.
func (c *Collector) Log(ctx context.Context, logger *slog.Logger) {
	peers := c.all()
	slices.SortFunc(peers, func(a, b *Peer) int { return cmp.Compare(a.name, b.name) })
	for _, p := range peers {
		logger.InfoContext(ctx, "clock", "peer", p)
	}
}

// LogValue implements slog.LogValuer, so a Peer can be in lines of your own, such as that of a
// player who leaves. It is a group that always has the same attributes, 0 where nothing is known.
func (p *Peer) LogValue() slog.Value {
	o := p.observed(p.collector.nowUsec())
	return slog.GroupValue(
		slog.String("name", p.name),
		slog.String("state", o.state),
		slog.Any("snapshot", o.snapshot),
		slog.Duration("silence", o.silence),
		slog.Bool("heard", o.heard),
		slog.Uint64("datagrams", o.stats.Datagrams),
		slog.Uint64("queued_spans", uint64(o.stats.QueuedSpans)),
	)
}
