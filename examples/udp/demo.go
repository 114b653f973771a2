package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// world is the demo: two peers, the relay between them, and a judge for each.
type world struct {
	config config
	epoch  time.Time
	relay  *relay
	peers  [2]*peer
	judges [2]*judge
	sent   [2]*ledger
	closed sync.Once
}

var names = [2]string{"peer A", "peer B"}

func loopback(at netip.AddrPort) (*net.UDPConn, error) {
	if !at.IsValid() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	}
	return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
}

func addr(conn *net.UDPConn) netip.AddrPort { return conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// newWorld opens the four sockets; nothing moves before start.
func newWorld(c config) (*world, error) {
	w := &world{config: c, epoch: time.Now(), sent: [2]*ledger{{}, {}}}
	w.relay = &relay{jitter: c.jitter, loss: c.loss / 100, rng: rand.New(rand.NewPCG(c.seed, 0))}
	w.relay.extra[0], w.relay.extra[1] = max(c.asymmetry, 0), max(-c.asymmetry, 0)
	for i := range w.peers {
		face, err := loopback(netip.AddrPort{})
		if err != nil {
			return nil, err
		}
		w.relay.conns[i] = face
		conn, err := loopback(netip.AddrPort{})
		if err != nil {
			return nil, err
		}
		w.relay.peers[i] = addr(conn)
		w.birth(i, conn, 0)
		// An earlier life of the peer, of which the attacker has kept a datagram.
		w.relay.recordings[1-i] = NewHook(c.key, uint64(i)).Seal(nil, make([]byte, eventLen+judgeLen), 12345)
	}
	for i, j := range w.judges {
		j.remote.Store(&w.peers[1-i].clock)
	}
	return w, nil
}

// birth makes peer i anew. Each life has a clock of its own: a process that counts
// from its start, or a machine that has booted, begins somewhere else.
func (w *world) birth(i int, conn *net.UDPConn, life uint64) {
	rng := rand.New(rand.NewPCG(w.config.seed, 1+uint64(i)+2*life))
	skew := w.config.skew / 2e6 // half is A's, slow, and half B's, fast
	if i == 0 {
		skew = -skew
	}
	p := &peer{
		Hook:  NewHook(w.config.key, uint64(i)),
		conn:  conn,
		clock: clock{start: rng.Uint64(), skew: skew},
		epoch: w.epoch,
	}
	w.judges[i] = &judge{
		sync: &p.Sync, local: p.clock, start: time.Since(w.epoch), rng: rng,
		mine: w.sent[i], other: w.sent[1-i],
	}
	p.rider = w.judges[i]
	if w.config.sync == "ping" {
		pinger := &pinger{rider: p.rider, local: p.clock}
		p.rider, w.judges[i].sync = pinger, pinger
	}
	to := addr(w.relay.conns[i])
	p.remote.Store(&to)
	w.peers[i] = p
}

func (w *world) start() {
	w.relay.start()
	for i := range w.peers {
		w.peers[i].start(w.config.rate)
	}
}

// close lets what is on the last yards arrive, so that the counts agree.
func (w *world) close() {
	w.closed.Do(func() {
		for _, p := range w.peers {
			p.hush()
		}
		w.relay.close()
		time.Sleep(50 * time.Millisecond)
		for _, p := range w.peers {
			p.close()
		}
	})
}

func demo(ctx context.Context, c config, stdout, stderr io.Writer) error {
	w, err := newWorld(c)
	if err != nil {
		return err
	}
	progress := stdout
	if c.json {
		progress = stderr // and stdout holds nothing but the JSON
	}
	fmt.Fprintf(progress, "%v: %g datagrams/s each way over %v + %v to %v jitter, %g %% lost, %g %% overtaken;\n",
		c.length, c.rate, relayDelay, time.Duration(jitterFloor*float64(c.jitter)), c.jitter, c.loss, reorderRate*100)
	fmt.Fprintf(progress, "clocks anywhere and %g ppm apart; -seed %d\n", c.skew, c.seed)
	w.start()
	fmt.Fprintln(progress, w.peers[0].receiveTimes())
	w.watch(ctx, progress)
	w.close()

	r := w.report()
	if c.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(stdout)
		r.print(stdout)
	}
	if r.Failed != "" {
		return errors.New(r.Failed)
	}
	return nil
}

// watch shows how it goes until the time is over or the user has had enough.
func (w *world) watch(ctx context.Context, out io.Writer) {
	terminal := isTerminal(out)
	every := time.Second
	if terminal {
		every = 100 * time.Millisecond
	}
	tick, show, end := time.NewTicker(20*time.Millisecond), time.NewTicker(every), time.NewTimer(w.config.length)
	defer tick.Stop()
	defer show.Stop()
	defer end.Stop()
	for lines := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-tick.C:
			// The attacker waits for something to spoil; before, greetings would be
			// refused as unproven, replayed or not, and the counts would not match.
			if w.peers[0].Sync.IsSynchronized() && w.peers[1].Sync.IsSynchronized() {
				w.relay.attack.Store(true)
				tick.Stop()
			}
			continue
		case <-show.C:
		}
		if terminal && lines {
			fmt.Fprint(out, "\x1b[2A") // two lines up
		}
		for i := range w.peers {
			line := w.progress(i)
			if terminal {
				line += "\x1b[K" // and clear what the longer one before has left
			}
			fmt.Fprintln(out, line)
		}
		lines = true
	}
}

func (w *world) progress(i int) string {
	p, j := w.peers[i], w.judges[i]
	now := time.Since(w.epoch)
	rejected := 0
	for _, kind := range kinds {
		rejected += p.count(kind)
	}
	offset := "unknown"
	if err, ok := j.offsetError(now); ok {
		offset = fmt.Sprintf("%+d us", err)
	}
	// Under 80 columns: a line that wraps cannot be overwritten.
	return fmt.Sprintf("%s %5.1f s  offset error %9s  min OWD %9s  %d in, %d rejected",
		names[i], now.Seconds(), offset, p.minDelay(), p.count(nil), rejected)
}

func (w *world) report() *report {
	c := w.config
	r := &report{
		For: c.length.Seconds(), Rate: c.rate, Delay: ms(relayDelay),
		JitterMin: ms(time.Duration(jitterFloor * float64(c.jitter))), JitterMax: ms(c.jitter),
		Loss: c.loss, Skew: c.skew, Asymmetry: ms(c.asymmetry), Seed: c.seed,
	}
	for i, p := range w.peers {
		r.Peers[i] = p.results(names[i], w.judges[i], w.relay, i)
		if !r.Peers[i].Synchronized {
			r.Failed = names[i] + " never synchronized"
		}
	}
	for i, p := range r.Peers {
		if p.IntrudersPassed > 0 {
			r.Failed = fmt.Sprintf("%s took %d datagrams that nobody had sent", names[i], p.IntrudersPassed)
		}
	}
	return r
}
