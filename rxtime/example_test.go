// The examples of the documentation.

package rxtime_test

import (
	"fmt"
	"net"

	"timesync"
	"timesync/clock"
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

	datagram, _ := timesync.LocalTimeToDatagramTS24(clock.Now()).AppendBinary(nil)
	a.WriteToUDPAddrPort(datagram, b.LocalAddr().(*net.UDPAddr).AddrPort())

	var buf [1500]byte
	n, from, receivedUsec, err := conn.ReadFrom(buf[:])
	if err != nil {
		return
	}
	// Here it would be authenticated.
	sync.OnAuthenticatedDatagramTimestamp(timesync.ReadCounter24(buf[:n]), receivedUsec)
	fmt.Println(n, "bytes from a:", from == a.LocalAddr().(*net.UDPAddr).AddrPort())
	fmt.Println("received in the past:", receivedUsec <= clock.Received())
	// Output:
	// 3 bytes from a: true
	// received in the past: true
}

// A program that reads the socket itself asks Received. With ReadBatch of golang.org/x/net
// it is the same for each message m of a batch, with a buffer of ControlSize bytes in m.OOB:
// conn.Received(m.OOB[:m.NN]).
func ExampleConn_Received() {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return
	}
	defer udp.Close()
	conn := rxtime.NewConn(udp) // before the first datagram comes

	sentUsec := clock.Now()
	udp.WriteToUDPAddrPort([]byte("hello"), udp.LocalAddr().(*net.UDPAddr).AddrPort())

	var buf [1500]byte
	var control [rxtime.ControlSize]byte
	n, controlLen, _, _, err := udp.ReadMsgUDPAddrPort(buf[:], control[:])
	if err != nil {
		return
	}
	receivedUsec := conn.Received(control[:controlLen]) // right after the read
	fmt.Printf("%s, after it was sent: %v\n", buf[:n], receivedUsec >= sentUsec)
	// Output:
	// hello, after it was sent: true
}
