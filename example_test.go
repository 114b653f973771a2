// The examples of the documentation: what they print is what they say.

package timesync_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"timesync"
)

// end is one end of a connection. Each datagram is the end's number, the one that it heard last,
// and a stamp, 11 bytes; with a report and the full clock 22. A real program authenticates all of
// it, and refuses what it received before.
type end struct {
	sync   timesync.TimeSynchronizer // 1. one for each remote peer
	number uint32                    // 7. random, drawn when the program starts, not 0
	heard  uint32                    // the number in the last datagram, which goes back as an echo
	peer   uint32                    // the number of the peer whose clock sync knows; 0: none
	others int                       // datagrams in a row with another number

	firstReport uint64 // 3. local time, us, of our first report; 0: none yet
	nextReport  uint64 // and of our next

	peerReport      uint64             // 5. local time, us, of the peer's last report; 0: none yet
	peerReportStamp timesync.Counter24 // the stamp of the datagram with that report
}

func (e *end) send(now uint64) []byte {
	d := binary.LittleEndian.AppendUint32(nil, e.number)
	d = binary.LittleEndian.AppendUint32(d, e.heard)
	d, _ = timesync.LocalTimeToDatagramTS24(now).AppendBinary(d) // 2.
	if e.peer == 0 {
		return d // there is nothing to report
	}
	if e.firstReport == 0 {
		e.firstReport = now
		e.nextReport = now
	}
	ahead := int64(e.nextReport - now)
	if ahead > 0 && ahead <= 1_000_000 { // else it is time, or our clock was set back
		return d
	}
	report, ok := e.sync.MinDeltaTS24(now) // 3. every 0.5 s, after 20 s every second
	if !ok {
		return d
	}
	e.nextReport = now + 500_000
	if now-e.firstReport > 20_000_000 {
		e.nextReport = now + 1_000_000
	}
	d, _ = report.AppendBinary(d)
	return binary.LittleEndian.AppendUint64(d, now)
}

func (e *end) receive(now uint64, d []byte) {
	number := binary.LittleEndian.Uint32(d)
	echo := binary.LittleEndian.Uint32(d[4:])
	e.heard = number
	if echo != e.number { // 7. for our predecessor, a recording, or the peer has not heard us yet
		return
	}
	if number != e.peer {
		e.others++
		if e.peer != 0 && e.others < 3 { // it may be a late datagram from before the peer's restart
			return
		}
		e.sync.Reset()
		e.peer = number
		e.firstReport = 0
		e.peerReport = 0
	}
	e.others = 0

	stamp := timesync.ReadCounter24(d[8:])
	e.sync.OnAuthenticatedDatagramTimestamp(stamp, now) // 4.
	if len(d) < 22 {
		return
	}
	ago := int64(now - e.peerReport)
	isRecent := e.peerReport != 0 && max(ago, -ago) < 1_000_000
	if isRecent && stamp.Less(e.peerReportStamp) { // 5. a later one overtook it
		return
	}
	e.peerReport = now
	e.peerReportStamp = stamp
	e.sync.Anchor(now, binary.LittleEndian.Uint64(d[14:]))
	e.sync.OnPeerMinDeltaTS24(timesync.ReadCounter24(d[11:]), now)
}

// Two ends in memory follow the seven steps. The server restarts after 30 s, with another clock.
// Half a minute later its machine sleeps for 40 s, and its clock stands still meanwhile. Then
// somebody replays what the server sent before the restart, and that changes nothing.
func Example_sevenSteps() {
	client := &end{number: 17}
	server := &end{number: 4711}
	ahead := uint64(5_000_000_000) // us, by which the server's clock is ahead
	const delay = 30_000           // us, either way
	now := uint64(60_000_000)
	var recorded [][]byte
	for n := range 120 * 60 {
		switch n {
		case 30 * 60:
			server = &end{number: 815}
			ahead = 60_000_000
		case 60 * 60:
			now += 40_000_000
			ahead -= 40_000_000
		case 100 * 60:
			for _, datagram := range recorded {
				client.receive(now, datagram)
			}
		}
		server.receive(now+ahead+delay, client.send(now))
		datagram := server.send(now + ahead)
		if n < 100 {
			recorded = append(recorded, datagram)
		}
		client.receive(now+delay, datagram)
		now += 16_667
	}

	// 6. Say when something happened in the clock of the peer, if that is known well enough.
	snapshot, _ := client.sync.Snapshot(now)
	payload := client.sync.AppendEvent(nil, now, now-5_000, 50*time.Millisecond)
	received := now + delay + ahead
	happened, ok := timesync.ReadEvent(payload, received, time.Second, 50*time.Millisecond)

	fmt.Println("the server's clock is ahead by", time.Duration(snapshot.OffsetUsec)*time.Microsecond,
		"within", snapshot.ErrorBound.Round(time.Millisecond))
	fmt.Println("one-way delay:", snapshot.MinimumOneWayDelay.Round(time.Millisecond))
	fmt.Println("age of the event on receipt:", time.Duration(received-happened)*time.Microsecond, ok)
	// Output:
	// the server's clock is ahead by 20s within 30ms
	// one-way delay: 30ms
	// age of the event on receipt: 35ms true
}

// A shot is fired on one machine and judged on another: three bytes say when, in
// the clock of the one that reads them.
func ExampleTimeSynchronizer_ToRemoteTime23() {
	var s timesync.TimeSynchronizer // the shooter's view of the judge, whose clock is 90 s ahead
	s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(100_000_000), 10_016_000)
	s.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(90_016_000), 10_016_000)

	payload := make([]byte, 3)
	if stamp, ok := s.ToRemoteTime23(12_000_000); ok {
		stamp.Put(payload)
	}

	// The judge reads it 16 ms later.
	now := uint64(102_016_000)
	fired := timesync.FromLocalTime23(now, timesync.ReadCounter23(payload))
	fmt.Println(fired, "which is", time.Duration(now-fired)*time.Microsecond, "ago")
	// Output: 102000000 which is 16ms ago
}

// A game accepts a shot only if its time is known well enough. The bound grows while the peer is
// silent.
func ExampleTimeSynchronizer_ErrorBound() {
	var s timesync.TimeSynchronizer // the peer's clock is 90 s ahead, 16 ms away
	for now := uint64(10_000_000); now < 40_000_000; now += 20_000 {
		s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now+90_000_000), now+16_000)
		if now%500_000 == 0 {
			s.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(90_016_000), now+16_000)
		}
	}
	for _, silence := range []time.Duration{0, 24 * time.Hour} {
		bound, ok := s.ErrorBound(40_000_000 + uint64(silence.Microseconds()))
		fmt.Println("after", silence, "trusted:", ok && bound < 30*time.Millisecond)
	}
	// Output:
	// after 0s trusted: true
	// after 24h0m0s trusted: false
}

// A server drops what it cannot date well enough, and logs why.
func ExampleSnapshot_Within() {
	var s timesync.TimeSynchronizer // the peer's clock is 90 s ahead, 16 ms away
	ask := func(tolerable time.Duration) {
		now, _ := s.Snapshot(10_016_000)
		switch err := now.Within(tolerable); {
		case err == nil:
			fmt.Println("good to", tolerable)
		case errors.Is(err, timesync.ErrWide):
			fmt.Println("not good to", tolerable, "but to", now.ErrorBound.Round(time.Millisecond))
		default:
			fmt.Println(err)
		}
	}
	ask(time.Hour)
	s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(100_000_000), 10_016_000)
	s.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(90_016_000).Dec(), 10_016_000)
	ask(50 * time.Millisecond)
	ask(5 * time.Millisecond)
	// Output:
	// timesync: the remote clock is not known yet
	// good to 50ms
	// not good to 5ms but to 16ms
}

// A relay tells a viewer what it knows of a camera's clock. The viewer puts that behind what it
// knows of the relay's, and dates a frame.
func ExampleSnapshot_Then() {
	// The relay's snapshot of the camera, and the viewer's of the relay; a link has them.
	camera := timesync.Snapshot{
		RemoteUsec: 700_000_000,
		OffsetUsec: 200_000_000,
		ErrorBound: 11 * time.Millisecond,
	}
	relay := timesync.Snapshot{
		RemoteUsec: 500_400_000,
		OffsetUsec: -300_000_000,
		ErrorBound: 6 * time.Millisecond,
	}

	wire, _ := camera.AppendBinary(nil) // the relay sends this, once a second perhaps

	var view timesync.Snapshot
	if err := view.UnmarshalBinary(wire); err != nil {
		return
	}
	toCamera := relay.Then(view)
	captured := toCamera.LocalTime(700_370_000) // the frame's time, by the camera's clock
	const arrived = 800_400_000                 // on the viewer's clock
	fmt.Println("from capture to arrival", time.Duration(arrived-captured)*time.Microsecond,
		"within", toCamera.At(captured).ErrorBound.Round(time.Millisecond))
	// Output: from capture to arrival 30ms within 17ms
}

// A remote time, such as that of an event in a log, is a time.Time here.
func ExampleSnapshot_LocalTime() {
	now := time.Now()
	here := timesync.UsecAt(now)
	// from a link
	s := timesync.Snapshot{
		RemoteUsec: here + 90_000_000,
		OffsetUsec: 90_000_000,
		ErrorBound: 20 * time.Millisecond,
	}

	event := timesync.TimeAt(s.LocalTime(s.RemoteUsec - 1_500_000)) // the remote clock 1.5 s ago
	fmt.Println(now.Sub(event).Round(time.Millisecond), "ago")
	// Output: 1.5s ago
}

// What a snapshot says of the future is less and less exact.
func ExampleSnapshot_At() {
	s := timesync.Snapshot{
		RemoteUsec: 100_000_000,
		OffsetUsec: 90_000_000,
		ErrorBound: 20 * time.Millisecond,
		Skew:       30,
		SkewError:  10,
	}
	later := s.At(70_000_000) // a minute later
	earliest, latest := later.Interval()
	fmt.Println(later.RemoteUsec, "within", later.ErrorBound.Round(time.Microsecond), "so from",
		earliest, "to", latest)
	// Output: 160001800 within 20.781ms so from 159981019 to 160022581
}

// Two bytes name a datagram for certain as long as its number is less than
// 32768 away from the newest one that arrived.
func ExampleCounter16_Expand() {
	newest := uint64(1_000_000)
	for _, sent := range []uint64{1_000_001, 1_000_003, 999_998, 1_032_000} {
		wire := timesync.NewCounter16(sent)
		number := wire.Expand(newest)
		fmt.Println(wire, "is", number)
		newest = max(newest, number)
	}
	// Output:
	// 16961 is 1000001
	// 16963 is 1000003
	// 16958 is 999998
	// 48960 is 1032000
}

// A stamp of 2 bytes in milliseconds, as Matt Slot proposes, holds a time of the common clock up
// to 32.7 s before or after now. Read it when it arrives, since a datagram may wait for seconds.
// An older time, such as the last one here, is read as the future.
func ExampleCounter16_milliseconds() {
	const now = 5_000_000_123 // the common clock, ms: after 57 days, beyond 32 bits
	for _, ago := range []int64{0, 40, 32_000, -32_000, 33_000} {
		stamp := timesync.NewCounter16(uint64(now - ago)) // at the sender
		fmt.Println(now-int64(stamp.Expand(now)), "ms ago")
	}
	// Output:
	// 0 ms ago
	// 40 ms ago
	// 32000 ms ago
	// -32000 ms ago
	// -32536 ms ago
}
