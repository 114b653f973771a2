// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"timesync/examples/transfer/ledbat"
)

// receiver takes a file.
type receiver struct {
	folder string
	store  *store
	heard  uint64 // when anything last came from the sender; 0: nothing yet
	ended  error  // why; io.EOF: all is there

	newest  uint32     // number of the newest data
	before  uint64     // bit i: newest-1-i arrived
	checked chan error // how it ended, if it is complete
}

// take says to each message how it ended, once it has.
func (r *receiver) take(
	message []byte, delay ledbat.Delay, nowUsec uint64,
) (answer []byte, err error) {
	r.heard = nowUsec
	if r.ended == nil {
		answer, err = r.answer(message, delay)
		r.ended = cmp.Or(r.ended, err)
	}
	if r.ended != nil {
		answer = over(r.ended)
	}
	return answer, r.ended
}

func (r *receiver) answer(message []byte, delay ledbat.Delay) ([]byte, error) {
	if len(message) == 0 {
		return nil, errMalformed
	}
	switch body := message[1:]; message[0] {
	case kindGame:
		return nil, nil
	case kindOffer:
		return r.offered(body)
	case kindData:
		return r.data(body, delay)
	case kindOver:
		return nil, r.store.kept(fmt.Errorf("the sender failed: %q", body))
	}
	return nil, errMalformed
}

// offered says what is there already.
func (r *receiver) offered(body []byte) ([]byte, error) {
	o, err := readOffer(body)
	if err != nil {
		return nil, err
	}
	if r.store == nil {
		if r.store, err = openStore(r.folder, o); err != nil {
			return nil, err
		}
	}
	if r.store.offer != o {
		return nil, fmt.Errorf("the sender offers %q while %q is not done", o.name, r.store.name)
	}
	r.check()
	return r.store.summary(), nil
}

// check looks whether the file is complete and its checksum right. To compute that of a large file
// takes long, so it runs beside; meanwhile the game's datagrams show the sender that we live.
func (r *receiver) check() {
	if r.ended != nil || r.store == nil || r.store.left > 0 {
		return
	}
	if r.checked == nil {
		r.checked = make(chan error, 1)
		go func() { r.checked <- cmp.Or(r.store.finish(), io.EOF) }()
	}
	select {
	case r.ended = <-r.checked:
	default:
	}
}

// poll looks whether it is over, or the sender has vanished.
func (r *receiver) poll(nowUsec uint64) (message []byte, wait time.Duration, err error) {
	r.check()
	if r.heard > 0 && r.ended == nil && int64(nowUsec-r.heard) > patience {
		r.ended = r.store.kept(errVanished)
	}
	return nil, 0, r.ended
}

func (r *receiver) progress() (there pieces, more string) {
	if r.store != nil {
		there = r.store.pieces
	}
	return there, ""
}

// data writes, and then acknowledges.
func (r *receiver) data(body []byte, delay ledbat.Delay) ([]byte, error) {
	if len(body) < dataHeader {
		return nil, errMalformed
	}
	if r.store == nil {
		// Meant for an earlier run of ours; the sender will time out and offer again.
		return nil, nil
	}
	number := wire.Uint32(body)
	if err := r.store.write(wire.Uint32(body[4:]), body[dataHeader:]); err != nil {
		return nil, err
	}
	r.note(number)
	return ackMessage(number, delay, r.before>>(r.newest-number)), nil
}

// note remembers which of the last datagrams arrived. Shifts by 64 and more give 0.
func (r *receiver) note(number uint32) {
	if ahead := int32(number - r.newest); ahead > 0 {
		r.newest, r.before = number, (r.before<<1|1)<<(ahead-1)
	} else if ahead < 0 {
		r.before |= 1 << (-ahead - 1)
	}
}
