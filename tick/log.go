// SPDX-License-Identifier: BSD-3-Clause

package tick

import "log/slog"

// LogValue returns the three clocks for package log/slog, in ticks, and by how much the others
// are ahead of Shared, in seconds.
func (c Clocks) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("shared", c.Shared.String()),
		slog.String("server", c.Server.String()),
		slog.String("predicted", c.Predicted.String()),
		slog.Float64("server_ahead_s", c.Server.Sub(c.Shared).Seconds()),
		slog.Float64("predicted_ahead_s", c.Predicted.Sub(c.Shared).Seconds()),
	)
}
