// The example of the documentation.

package rxtime_test

import (
	"fmt"
	"net"

	"timesync"
	"timesync/rxtime"
)

// One end sends its stamp, the other hands in the time at which its kernel received it.
func Example() {
	local := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}
	a, err := net.ListenUDP("udp4", local)
	if err != nil {
		return
	}
	defer a.Close()
	b, err := net.ListenUDP("udp4", local)
	if err != nil {
		return
	}
	defer b.Close()

	conn := rxtime.NewConn(b) // before the first datagram comes
	var sync timesync.TimeSynchronizer

	datagram, _ := timesync.LocalTimeToDatagramTS24(timesync.NowUsec()).AppendBinary(nil)
	a.WriteToUDPAddrPort(datagram, b.LocalAddr().(*net.UDPAddr).AddrPort())

	var buf [1500]byte
	n, from, receivedUsec, err := conn.ReadFrom(buf[:])
	if err != nil {
		return
	}
	// Here it would be authenticated.
	sync.OnAuthenticatedDatagramTimestamp(timesync.ReadCounter24(buf[:n]), receivedUsec)
	fmt.Println(n, "bytes from a:", from == a.LocalAddr().(*net.UDPAddr).AddrPort())
	fmt.Println("received in the past:", receivedUsec <= timesync.NowUsec())
	// Output:
	// 3 bytes from a: true
	// received in the past: true
}
