// SPDX-License-Identifier: BSD-3-Clause

package rxtime

import (
	"encoding/binary"
	"time"
)

// The option and its control message have the same number, on all machines that Go runs
// on. The new one has 64-bit seconds everywhere; the old one's have the size of a word,
// and where that is 32 bits they are cut in 2038: read without a sign they go on to
// 2106. Linux has the new one since 5.1.
const (
	timestampOld = 35 // SO_TIMESTAMPNS
	timestampNew = 64 // SO_TIMESTAMPNS_NEW
)

// maxSeconds since 1970 fit into int64 nanoseconds with any fraction, until 2262.
const maxSeconds = 1<<63/uint64(time.Second) - 1

// stampOf finds the receive time in the control messages of a datagram: nanoseconds
// since 1970. It is not ok if there is none, or if what is there is cut short or no
// time. word is the size of a long in bytes, 4 or 8; level is SOL_SOCKET.
//
// Each message is its length, a word that counts itself too; level and type, 4 bytes
// each; and the data. The next one begins at a multiple of the word. All integers are
// in the machine's byte order, and those of 8 bytes need not be aligned to 8.
func stampOf(control []byte, word int, level int32) (nsec int64, ok bool) {
	order := binary.NativeEndian
	header := word + 8
	for len(control) >= header {
		length := wordAt(control, word)
		if length < uint64(header) || length > uint64(len(control)) {
			return 0, false
		}
		data := control[header:length]
		kind, half := order.Uint32(control[word+4:]), len(data)/2
		ours := kind == timestampNew && len(data) == 16 || kind == timestampOld && len(data) == 2*word
		if ours && int32(order.Uint32(control[word:])) == level {
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

// nanoseconds refuses what is negative: without its sign it is too large.
func nanoseconds(seconds, fraction uint64) (nsec int64, ok bool) {
	if seconds > maxSeconds || fraction >= uint64(time.Second) {
		return 0, false
	}
	return int64(seconds*uint64(time.Second) + fraction), true
}
