// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"

	"timesync/examples/transfer/ledbat"
)

// receiver takes a file. It knows no socket and no clock.
type receiver struct {
	folder string
	store  *store
	heard  uint64 // when anything last came from the sender
	begun  bool   // something did
	failed error  // why it ended

	newest  uint32 // number of the newest data
	before  uint64 // bit i: newest-1-i arrived
	any     bool
	checked chan error // the result of store.finish
	over    bool       // and it is known
}

// take takes a message of the sender, with what is known of its delay, and appends the
// answer to b, if there is one. Once it failed, it says so to each message.
func (r *receiver) take(b, message []byte, delay ledbat.Delay, nowUsec uint64) []byte {
	r.heard, r.begun = nowUsec, true
	if len(message) == 0 {
		r.failed = errMalformed
	}
	if r.failed != nil {
		return appendOver(b, r.failed.Error())
	}
	var answer []byte
	switch body := message[1:]; message[0] {
	case kindGame:
		return nil
	case kindOffer:
		answer, r.failed = r.offered(b, body)
	case kindData:
		answer, r.failed = r.data(b, body, delay)
	case kindOver:
		r.failed = fmt.Errorf("the sender failed: %q", body)
		if r.store != nil {
			r.failed = r.store.kept(r.failed)
		}
		return nil
	default:
		r.failed = errMalformed
	}
	if r.failed != nil {
		return appendOver(b, r.failed.Error())
	}
	return answer
}

// offered says what is there already, or that all is.
func (r *receiver) offered(b, body []byte) ([]byte, error) {
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
	if done, err := r.done(); done || err != nil {
		return appendOver(b, ""), err
	}
	return appendHave(b, r.store.had), nil
}

// done reports whether the file is complete and checked. The check of a large file takes
// long, so it runs beside; meanwhile the game's datagrams show the sender that we live.
func (r *receiver) done() (bool, error) {
	if r.over || r.store == nil || r.store.left > 0 {
		return r.over, nil
	}
	if r.checked == nil {
		r.checked = make(chan error, 1)
		go func() { r.checked <- r.store.finish() }()
	}
	select {
	case err := <-r.checked:
		r.over = err == nil
		return r.over, err
	default:
		return false, nil
	}
}

// data writes, and then acknowledges.
func (r *receiver) data(b, body []byte, delay ledbat.Delay) ([]byte, error) {
	d, err := readData(body)
	if err != nil {
		return nil, err
	}
	if r.store == nil {
		return nil, nil // meant for an earlier run of ours; the sender will time out and offer again
	}
	if err := r.store.write(d.chunk, d.bytes); err != nil {
		return nil, err
	}
	r.note(d.number)
	a := ack{d.number, delay, 0}
	if behind := r.newest - d.number; behind < 64 {
		a.before = r.before >> behind
	}
	return a.append(b), nil
}

// note remembers which of the last datagrams arrived.
func (r *receiver) note(number uint32) {
	ahead := int32(number - r.newest)
	switch {
	case !r.any:
		r.newest, r.any = number, true
	case ahead > 0:
		r.before = (r.before<<1 | 1) << (ahead - 1) // shifts of 64 and more give 0
		r.newest = number
	case ahead < 0 && ahead >= -64:
		r.before |= 1 << (-ahead - 1)
	}
}
