// SPDX-License-Identifier: BSD-3-Clause

// These tests prove without a browser that game.mjs plays, in Node and over a WebSocket: an input
// comes for nearly every tick, most of them in time, the client knows the server's game time, and
// it goes on when the server is another one.

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"timesync/internal/testkit"
	"timesync/js"
)

// bot is a client without a page, whose timers are slow if the second argument says so. Every 50 ms
// it says what it knows.
const bot = `
import {Game} from './game.mjs';
import {clock} from './timesync.mjs';

const [base, slowest] = process.argv.slice(2);
const often = setInterval;
const game = new Game({base, clock});
game.run();
often(() => game.work(), Math.max(8, slowest));

// Read anew each time: with performance.timeOrigin, which is read once, a test was 6 ms off from
// its first line to its last.
function timeOfDay() {
	for (;;) {
		const before = performance.now();
		const unix = Date.now(); // rounded down to 1 ms
		const at = performance.now();
		const stopped = at - before > 0.1;
		if (!stopped) return {at, unix: (unix + 0.5) * 1000};
	}
}

often(() => {
	const {at, unix} = timeOfDay();
	const clocks = game.ticks.clocks(clock.now());
	const known = clocks && game.you !== null;
	console.log(JSON.stringify({
		unix,
		doubt: known ? game.ticks.within(100_000, clock.now()) : 'unsynchronized',
		shared: known ? clocks.shared : 0,
		bound: known ? clocks.bounds.shared + (performance.now() - at) * 1000 : 0,
		epoch: known ? Number(clocks.epoch) : 0,
		inTime: game.inputs.inTime,
		late: game.inputs.late,
		players: known ? game.othersAt(clocks.server, clocks.rate).length + 1 : 0,
	}));
}, 50);
`

// said is what the bot says, us.
type said struct {
	Unix, Shared, Bound float64
	InTime, Late        int // inputs
	Doubt               string
	Epoch               uint64
	Players             int
}

// startBot runs the bot in Node until the test is over, with timers of at least so many ms.
func startBot(t *testing.T, s *server, slowest string) *bufio.Scanner {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED in JavaScript: there is no Node")
	}
	const flag = "--experimental-websocket" // before Node 22
	if exec.CommandContext(t.Context(), node, flag, "-e", "WebSocket").Run() != nil {
		t.Skip("NOT TESTED in JavaScript: this Node has no WebSocket")
	}
	folder := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "timesync.mjs"), js.Timesync, 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "bot.mjs"), []byte(bot), 0o600))
	for _, name := range []string{"game.mjs", "transport.mjs"} {
		b, err := files.ReadFile("static/" + name)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name), b, 0o600))
	}
	command := exec.CommandContext(t.Context(),
		node, flag, "--no-warnings", filepath.Join(folder, "bot.mjs"), s.address(), slowest)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() }) // it was killed
	return bufio.NewScanner(out)
}

// hear reads a line of the bot, and reports whether the bot is sure. It fails the test if the bot
// is sure and wrong.
func hear(t *testing.T, s *server, bot *bufio.Scanner) (got said, sure bool) {
	t.Helper()
	if !bot.Scan() {
		t.Fatal("Node has stopped")
	}
	testkit.Must(t, json.Unmarshal(bot.Bytes(), &got))
	epoch, _ := s.room.game.Epoch()
	if got.Doubt != "" || got.Epoch != epoch || got.Players != 2 {
		return got, false
	}
	is, _ := s.room.game.Snapshot(uint64(int64(got.Unix) - s.unixAtZero()))
	off := float64(is.SharedTime.Duration().Microseconds()) - got.Shared
	const rounded = 1000 // by what the two readings of the time of day are beside each other, us
	if max(off, -off) > got.Bound+rounded {
		t.Errorf("off by %.0f us, more than %.0f", off, got.Bound)
	}
	return got, true
}

// watch hears the bot until it is sure, and for a while after that.
func watch(t *testing.T, s *server, bot *bufio.Scanner, lasting time.Duration) {
	t.Helper()
	testkit.Eventually(t, "the bot is sure", func() bool {
		_, sure := hear(t, s, bot)
		return sure
	})
	hearFor := func(d time.Duration) (last said, lines, unsure int) {
		for start := time.Now(); time.Since(start) < d; lines++ {
			var sure bool
			if last, sure = hear(t, s, bot); !sure {
				unsure++
			}
		}
		return last, lines, unsure
	}
	before, _, _ := hearFor(2 * time.Second)
	// Where the machine had no time for the bot, the next stretch counts.
	const stretches = 5
	for range stretches {
		after, lines, unsure := hearFor(lasting)
		inTime, late := after.InTime-before.InTime, after.Late-before.Late
		t.Logf("inputs: %d in time, %d late; %d of %d times unsure", inTime, late, unsure, lines)
		ticks := int(lasting.Seconds() * rate)
		few, many := ticks/2, ticks*3/2 // a Welcome comes each second
		all := inTime + late
		if all >= few && all <= many && late <= inTime && unsure <= lines/2 {
			return
		}
		before = after
	}
	t.Errorf("in none of %d stretches most inputs came in time, and the bot was sure", stretches)
}

func TestNode(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	bot := startBot(t, s, "0")
	watch(t, s, bot, 4*time.Second)
	address := s.listener.Addr().String()
	s.close()
	again, err := serve(address, "")
	testkit.Must(t, err)
	t.Cleanup(again.close)
	watch(t, again, bot, 3*time.Second)
}

// TestHidden: a hidden page, whose timers run once a second and which draws nothing, sends its
// inputs all the same.
func TestHidden(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	watch(t, s, startBot(t, s, "1000"), 4*time.Second)
}
