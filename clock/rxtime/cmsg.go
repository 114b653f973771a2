// SPDX-License-Identifier: BSD-3-Clause

package rxtime

import (
	"encoding/binary"
	"time"
)

// The option and its control message have the same number, on all machines that Go supports. Linux
// has the new one since 5.1. Its seconds have 64 bits everywhere. Those of the old one have the
// size of a word. With 32 bits they overflow in 2038; read as unsigned, they last until 2106.
const (
	timestampOld = 35 // SO_TIMESTAMPNS
	timestampNew = 64 // SO_TIMESTAMPNS_NEW
)

// maxSeconds since 1970 fit into int64 nanoseconds with any fraction. They last until 2262.
const maxSeconds = 1<<63/uint64(time.Second) - 1

// stampOf returns the receive time in the control messages of a datagram, as nanoseconds since
// 1970. ok is false if there is none, if it is cut short, or if it is no valid time. word is the
// size of a long in bytes, 4 or 8. level is SOL_SOCKET.
//
// Each message consists of its length, a word that includes itself; level and type, 4 bytes each;
// and the data. The next message begins at a multiple of the word. All integers are in the
// machine's byte order. Those of 8 bytes need not be aligned to 8.
func stampOf(control []byte, word int, level int32) (nsec int64, ok bool) {
	order := binary.NativeEndian
	header := word + 8
	for len(control) >= header {
		length := wordAt(control, word)
		if length < uint64(header) || length > uint64(len(control)) {
			return 0, false
		}
		data := control[header:length]
		kind := order.Uint32(control[word+4:])
		isNew := kind == timestampNew && len(data) == 16
		isOld := kind == timestampOld && len(data) == 2*word
		if (isNew || isOld) && int32(order.Uint32(control[word:])) == level {
			half := len(data) / 2
			return nanoseconds(wordAt(data, half), wordAt(data[half:], half))
		}
		next := (int(length) + word - 1) &^ (word - 1)
		control = control[min(next, len(control)):]
	}
	return 0, false
}

func wordAt(b []byte, word int) uint64 {
	if word == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// nanoseconds refuses negative values: as unsigned ones they are too large.
func nanoseconds(seconds, fraction uint64) (nsec int64, ok bool) {
	if seconds > maxSeconds || fraction >= uint64(time.Second) {
		return 0, false
	}
	return int64(seconds*uint64(time.Second) + fraction), true
}
