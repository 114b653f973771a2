// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"errors"
	"os"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/record"
)

// Recorded is a synchronizer that is recorded into a file.
type Recorded struct {
	sim.Core
	Tape *record.Recorder
	file *os.File
}

// Record makes one.
func Record(path string) (*Recorded, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	r := &Recorded{Tape: record.New(file), file: file}
	r.Tape.Wrap(&r.Sync)
	return r, nil
}

// OnDatagram implements sim.Estimator.
func (r *Recorded) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return r.Tape.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

// OnPeerMinDelta implements sim.Estimator.
func (r *Recorded) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	r.Tape.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

// Close ends the recording.
func (r *Recorded) Close() error { return errors.Join(r.Tape.Close(), r.file.Close()) }
