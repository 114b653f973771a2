// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"os"
	"time"

	"timesync"
	"timesync/compare/play"
	"timesync/record"
)

// recordedSubject is a subject that is recorded.
type recordedSubject struct {
	*play.Subject
	record *record.Recorder
	file   *os.File
}

func recordSubject(path string) (r recordedSubject, err error) {
	r.Subject = new(play.Subject)
	if r.file, err = os.Create(path); err != nil {
		return r, err
	}
	r.record = record.New(r.file)
	r.record.Wrap(&r.Sync)
	return r, nil
}

// OnDatagram implements sim.Estimator.
func (r recordedSubject) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return r.record.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

// OnPeerMinDelta implements sim.Estimator.
func (r recordedSubject) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	r.record.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

func (r recordedSubject) close() error { return errors.Join(r.record.Close(), r.file.Close()) }
