// SPDX-License-Identifier: BSD-3-Clause

package tick

import "log/slog"

// LogValue returns the three clocks for package log/slog, in ticks, and by how much the others
// are ahead of Shared, in seconds.
func (c Clocks) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("shared", c.SharedTime.String()),
		slog.String("server", c.ServerTime.String()),
		slog.String("predicted", c.PredictedTime.String()),
		slog.Float64("server_ahead_s", c.ServerTime.Sub(c.SharedTime).Seconds()),
		slog.Float64("predicted_ahead_s", c.PredictedTime.Sub(c.SharedTime).Seconds()),
	)
}
