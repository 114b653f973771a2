// SPDX-License-Identifier: BSD-3-Clause

package channel

import "encoding/binary"

// What a DTLS record begins with: a byte of its type, 2 of the version, 2 of the epoch, 6 of a
// counter, and 2 of the length of the rest. What has epoch 0 is not encrypted.
const (
	changeCipherRecord = 20
	alertRecord        = 21
	handshakeRecord    = 22
	epochAt            = 3
	lengthAt           = 11
	recordHead         = 13
)

// AdmitsDTLS reports whether a datagram may reach a DTLS library: it drops what anybody can forge
// and what would end a connection. Up to v3.1.15 pion/dtls ends one at the first alert, data or
// record of unknown type that is not encrypted, also while the handshake is under way. So only
// handshakes that are not encrypted pass, and the record that says that encrypted ones follow, if
// it is right. The price is that a handshake that fails ends by its timeout. What is no DTLS
// record passes.
func AdmitsDTLS(datagram []byte) bool {
	for len(datagram) >= recordHead {
		epoch := binary.BigEndian.Uint16(datagram[epochAt:])
		length := int(binary.BigEndian.Uint16(datagram[lengthAt:]))
		end := min(recordHead+length, len(datagram))
		body := datagram[recordHead:end]
		switch {
		case datagram[0] == changeCipherRecord: // which the library never decrypts
			if epoch > 0 || len(body) != 1 || body[0] != 1 {
				return false
			}
		case epoch == 0 && datagram[0] != handshakeRecord:
			return false
		}
		datagram = datagram[end:]
	}
	return true
}
