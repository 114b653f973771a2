// The example of the documentation.

package rxtime_test

import (
	"fmt"
	"net"

	"timesync"
	"timesync/clock"
	"timesync/clock/rxtime"
)

// One end sends its stamp. The other end passes on the time at which its kernel received the
// datagram. Here both use one socket.
//
// A program that reads a batch itself calls conn.Received(m.OOB[:m.NN]) for each message m, whose
// m.OOB has ControlSize bytes.
func Example() {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return
	}
	defer udp.Close()
	at := udp.LocalAddr().(*net.UDPAddr).AddrPort()

	conn := rxtime.NewConn(udp) // before the first datagram comes
	var sync timesync.TimeSynchronizer

	datagram, _ := timesync.LocalTimeToDatagramTS24(clock.Now()).AppendBinary(nil)
	udp.WriteToUDPAddrPort(datagram, at)

	var buf [1500]byte
	n, from, receivedUsec, err := conn.ReadFrom(buf[:])
	if err != nil {
		return
	}
	// Here it would be authenticated.
	sync.OnAuthenticatedDatagramTimestamp(timesync.ReadCounter24(buf[:n]), receivedUsec)
	fmt.Println(n, "bytes from the other:", from == at)
	fmt.Println("received in the past:", receivedUsec <= clock.Received())
	// Output:
	// 3 bytes from the other: true
	// received in the past: true
}
