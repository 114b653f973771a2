// This test proves that the kernel writes stamps as it is told.

package rxtime

import (
	"encoding/binary"
	"math/bits"
	"syscall"
	"testing"
)

// TestOptions: the kernel itself writes both kinds of stamps, and then none. On 386 it
// writes the 32-bit layout.
func TestOptions(t *testing.T) {
	for _, c := range []struct{ option, value int }{
		{timestampNew, 1},
		{timestampOld, 1},
		{timestampNew, 0},
	} {
		udp, at := open(t)
		NewConn(udp)
		raw, err := udp.SyscallConn()
		must(t, err)
		raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, c.option, c.value)
		})
		if err != nil {
			t.Skipf("option %d: %v", c.option, err)
		}
		write(t, udp, []byte("a"), at)
		var control [ControlSize]byte
		_, n, _, _, err := udp.ReadMsgUDPAddrPort(make([]byte, 9), control[:])
		must(t, err)
		_, ok := kernelStamp(control[:n])
		check(t, ok, c.value == 1, "option %d = %d: a stamp", c.option, c.value)
		if kind := binary.NativeEndian.Uint32(control[bits.UintSize/8+4:]); n > 0 &&
			int(kind) != c.option {
			t.Errorf("option %d: a stamp of kind %d", c.option, kind)
		}
	}
}
