// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"

	"timesync/examples/transfer/ledbat"
)

// receiver takes a file. It knows no socket and no clock.
type receiver struct {
	folder string
	store  *store
	heard  uint64 // when anything last came from the sender; 0: nothing yet
	failed error  // why it ended

	newest  uint32     // number of the newest data
	before  uint64     // bit i: newest-1-i arrived
	checked chan error // the result of store.finish
	over    bool       // and it is known, and good
}

// take takes a message of the sender, with what is known of its delay, and returns the
// answer, if there is one. Once it failed, it says so to each message.
func (r *receiver) take(message []byte, delay ledbat.Delay, nowUsec uint64) (answer []byte) {
	r.heard = nowUsec
	if r.failed == nil {
		var err error
		answer, err = r.answer(message, delay)
		r.failed = cmp.Or(r.failed, err)
	}
	if r.failed != nil {
		return over(r.failed.Error())
	}
	return answer
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

// offered says what is there already, or that all is.
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
		return nil, fmt.Errorf("the sender offers %q while %q is not done", o.name, r.store.offer.name)
	}
	if r.check(); r.over {
		return over(""), nil
	}
	return r.store.summary(), nil
}

// check looks whether the file is complete and its checksum right. To compute that of a large file takes
// long, so it runs beside; meanwhile the game's datagrams show the sender that we live.
func (r *receiver) check() {
	if r.over || r.failed != nil || r.store == nil || r.store.left > 0 {
		return
	}
	if r.checked == nil {
		r.checked = make(chan error, 1)
		go func() { r.checked <- r.store.finish() }()
	}
	select {
	case r.failed = <-r.checked:
		r.over = r.failed == nil
	default:
	}
}

// poll looks whether it is over, or the sender has vanished.
func (r *receiver) poll(nowUsec uint64) (over bool, err error) {
	if r.check(); r.heard > 0 && !r.over && r.failed == nil && int64(nowUsec-r.heard) > patience {
		r.failed = r.store.kept(errVanished)
	}
	return r.over, r.failed
}

// data writes, and then acknowledges.
func (r *receiver) data(body []byte, delay ledbat.Delay) ([]byte, error) {
	var d data
	bytes, err := read(body, &d)
	// Meant for an earlier run of ours; the sender will time out and offer again.
	if err != nil || r.store == nil {
		return nil, err
	}
	if err := r.store.write(d.Chunk, bytes); err != nil {
		return nil, err
	}
	r.note(d.Number)
	a := ack{d.Number, [3]byte(delay.Append(nil)), r.before >> (r.newest - d.Number)}
	return message(kindAck, a, ""), nil
}

// note remembers which of the last datagrams arrived. Shifts by 64 and more give 0.
func (r *receiver) note(number uint32) {
	if ahead := int32(number - r.newest); ahead > 0 {
		r.newest, r.before = number, (r.before<<1|1)<<(ahead-1)
	} else if ahead < 0 {
		r.before |= 1 << (-ahead - 1)
	}
}
