// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"timesync/compare/play"
	"timesync/internal/sim"
)

const (
	linkRate  = 10e6 // bits a second of the router, as in queue.sh
	linkFlows = 4    // TCP connections that fill a direction: one alone leaves it empty at times
	crossPort = 7100
)

// linkLoad is what else crosses the link: TCP by phases, or random UDP traffic.
type linkLoad struct {
	name   string        // of files and rows
	share  float64       // of the rate, each way: of random traffic
	before time.Duration // for how long it has filled the link when the hosts begin to exchange datagrams
	phases []linkPhase
}

// linkPhase is a part of the run.
type linkPhase struct {
	name     string
	from, to float64 // shares of it
	fill     [2]bool // TCP from A to B, from B to A
}

// linkLoads are the experiments.
var linkLoads = []linkLoad{
	{name: "tcp", phases: []linkPhase{
		{"nothing else", 0, 0.15, [2]bool{}},
		{"TCP from A to B", 0.15, 0.40, [2]bool{true, false}},
		{"TCP from B to A", 0.40, 0.65, [2]bool{false, true}},
		{"TCP both ways", 0.65, 0.90, [2]bool{true, true}},
		{"nothing else again", 0.90, 1, [2]bool{}},
	}},
	{name: "cross60", share: 0.6},
	{name: "cross80", share: 0.8},
	{name: "cross90", share: 0.9},
	{name: "cross90-busy", share: 0.9, before: 10 * time.Second},
}

// within runs do in a network namespace. Sockets stay where they were made, and so do
// processes. The thread that was moved there ends with its goroutine, since it is not unlocked.
func within[T any](namespace string, do func() (T, error)) (made T, err error) {
	var moved sync.WaitGroup
	moved.Go(func() {
		runtime.LockOSThread()
		var there *os.File
		if there, err = os.Open("/run/netns/" + namespace); err != nil {
			return
		}
		defer there.Close()
		if err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err == nil {
			made, err = do()
		}
	})
	moved.Wait()
	return made, err
}

// after is the time after a share of the run.
func (l *link) after(share float64) time.Duration { return time.Duration(share * float64(l.lasting)) }

// fill fills the link from one side until ctx is over: with random traffic, or with TCP whenever the
// phases say so.
func (l *link) fill(ctx context.Context, side int) {
	var err error
	if l.load.share > 0 {
		err = l.cross(ctx, side)
	}
	for _, p := range l.load.phases {
		if !p.fill[side] {
			continue
		}
		time.Sleep(l.after(p.from) - time.Since(l.begun))
		var flows errgroup.Group
		for range linkFlows {
			flows.Go(func() error { return l.flow(side, l.after(p.to)-l.after(p.from)) })
		}
		err = errors.Join(err, flows.Wait())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: load:", err)
	}
}

// flow is one TCP connection from one host to the other that sends as much as it can.
func (l *link) flow(side int, lasting time.Duration) error {
	deadline := time.Now().Add(lasting)
	listener, err := within(l.spaces[1-side], func() (net.Listener, error) {
		return net.Listen("tcp4", netip.AddrPortFrom(linkHosts[1-side], 0).String())
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		if in, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, in)
			in.Close()
		}
	}()
	conn, err := within(l.spaces[side], func() (net.Conn, error) {
		return net.DialTimeout("tcp4", listener.Addr().String(), lasting)
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetLinger(0) // what waits in the queue is not wanted any more
	conn.SetDeadline(deadline)
	for chunk := make([]byte, 1<<16); err == nil; {
		_, err = conn.Write(chunk)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// cross sends bursts of packets at random moments: those of a Poisson process. A burst has
// 1 to 20 packets of 1,200 bytes.
func (l *link) cross(ctx context.Context, side int) error {
	const payload, header, longest = 1200, 14 + 20 + 8, 20       // Ethernet, IPv4, UDP
	conn, err := open(l.spaces[side], sim.Side(side), crossPort) // nobody reads it: what it has no room for is dropped
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(l.seed, uint64(side)))
	bits := float64(longest+1) / 2 * (payload + header) * 8
	gap := bits / (l.load.share * linkRate) * float64(time.Second)
	b := make([]byte, payload)
	peer := netip.AddrPortFrom(linkHosts[1-side], crossPort)
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Duration(random.ExpFloat64() * gap))
		time.Sleep(time.Until(next))
		for range 1 + random.IntN(longest) {
			conn.WriteToUDPAddrPort(b, peer)
		}
	}
	return nil
}

// The programs that people run: chronyd and ptp4l, as processes between the same hosts. Both
// hosts have the machine's own clock, which they leave alone: what they estimate as the
// offset is their error.

// rival is how to run a program and read its estimates.
type rival struct {
	name, program string
	// server and client are configuration files; SOCK is a folder for sockets. Without a
	// server, the client asks one that another rival has started.
	server, client string
	// arguments come before the configuration file.
	arguments []string
	// estimate is in the lines that the client prints, or chronyc for it, in units of so many us.
	estimate *regexp.Regexp
	unit     float64
}

// setup is that of its errors.
func (p rival) setup() linkSetup { return linkSetup{name: p.name, kernel: true} }

// chronySockets is what every chronyd here needs: its files are in its own folder.
const chronySockets = "cmdport 0\nbindcmdaddress SOCK/sock\npidfile SOCK/pid\n"

// ptpCommon lets ptp4l exchange 16 times a second each way through a router. With
// free_running it leaves the clock alone and prints the offset of each exchange.
const ptpCommon = "[global]\ntime_stamping software\nnetwork_transport UDPv4\nudp_ttl 8\nfree_running 1\n" +
	"logSyncInterval -4\nlogMinDelayReqInterval -4\nlogAnnounceInterval -2\nuds_address SOCK/uds\n"

// rivalPrograms are tried in every experiment. All take the kernel's times. The first chronyd serves the
// machine's clock to both.
var rivalPrograms = []rival{
	chrony(play.Chronyd, "local stratum 1\nallow\n"+chronySockets, 0), chrony(play.ChronydOften, "", -4),
	{name: "ptp4l 16/s", program: "ptp4l", arguments: []string{"-m", "-f"},
		estimate: regexp.MustCompile(`master offset +(-?\d+) `), unit: 1e-3,
		server: ptpCommon + "unicast_listen 1\ninhibit_multicast_service 1\nmasterOnly 1\n[eth0]\n",
		client: ptpCommon + "slaveOnly 1\nsummary_interval -6\n[unicast_master_table]\ntable_id 1\nlogQueryInterval 0\nUDPv4 " + linkHosts[1].String() + "\n[eth0]\nunicast_master_table 1\n"},
}

// correction is what chronyc prints: reference, address, stratum, time, the correction in seconds. Stratum 0 is no estimate.
var correction = regexp.MustCompile(`^[^,]*,[^,]*,[1-9]\d*,[^,]*,([^,]+),`)

// chrony is chronyd with a poll every 2^poll seconds.
func chrony(name, server string, poll int) rival {
	return rival{name: name, program: "chronyd", arguments: []string{"-x", "-d", "-u", "root", "-F", "0", "-f"},
		server: server, estimate: correction, unit: 1e6,
		client: fmt.Sprintf("server %s minpoll %d maxpoll %d xleave\nport 0\n", linkHosts[1], poll, poll) + chronySockets}
}

// runRivals runs all programs until ctx is over. Their clients are at end A. What they estimate is told of
// each kind of traffic.
func (l *link) runRivals(ctx context.Context) {
	folder, err := os.MkdirTemp("", "reallink")
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return
	}
	defer os.RemoveAll(folder)
	var all sync.WaitGroup
	for i, p := range rivalPrograms {
		all.Go(func() {
			err := p.run(ctx, l.spaces, filepath.Join(folder, strconv.Itoa(i)), func(usec float64) {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, s := range l.streams {
					s.errs[p.setup()] = append(s.errs[p.setup()], linkError{time.Since(l.begun), sim.A, usec})
				}
			})
			l.mu.Lock()
			defer l.mu.Unlock()
			if errors.Is(err, exec.ErrNotFound) {
				l.missing[p.name] = "not installed"
			} else if err != nil && ctx.Err() == nil {
				l.missing[p.name] = err.Error()
			}
		})
	}
	all.Wait()
}

// run runs the server in the second namespace, and the client in the first.
func (p rival) run(ctx context.Context, spaces [2]string, folder string, found func(float64)) error {
	if p.server != "" {
		server, out, err := p.start(ctx, spaces[1], filepath.Join(folder, "server"), p.server)
		if err != nil {
			return err
		}
		defer server.Wait()
		defer server.Process.Kill()
		go io.Copy(io.Discard, out)
	}
	home := filepath.Join(folder, "client")
	client, out, err := p.start(ctx, spaces[0], home, p.client)
	if err != nil {
		return err
	}
	defer client.Wait()
	defer client.Process.Kill()
	if p.program == "chronyd" {
		go io.Copy(io.Discard, out)
		if out, err = tracking(ctx, filepath.Join(home, "sock")); err != nil {
			return err
		}
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := p.estimate.FindStringSubmatch(lines.Text()); m != nil {
			v, _ := strconv.ParseFloat(m[1], 64)
			found(v * p.unit)
		}
	}
	return errors.New("it ended")
}

// start starts the program in a namespace, with its files in a folder of its own.
func (p rival) start(ctx context.Context, space, home, conf string) (*exec.Cmd, io.Reader, error) {
	path := filepath.Join(home, "conf")
	err := os.MkdirAll(home, 0o700)
	err = errors.Join(err, os.WriteFile(path, []byte(strings.ReplaceAll(conf, "SOCK", home)), 0o600))
	c := exec.CommandContext(ctx, p.program, slices.Concat(p.arguments, []string{path})...)
	out, bad := c.StdoutPipe()
	if err = errors.Join(err, bad); err == nil {
		_, err = within(space, func() (any, error) { return nil, c.Start() })
	}
	return c, out, err
}

// tracking asks chronyd ten times a second for its estimate, through chronyc, and returns the answers.
func tracking(ctx context.Context, socket string) (io.Reader, error) {
	for ; ; time.Sleep(linkAsk) { // chronyd makes it when it is ready
		if _, err := os.Stat(socket); err == nil || ctx.Err() != nil {
			break
		}
	}
	c := exec.CommandContext(ctx, "chronyc", "-c", "-n", "-h", socket)
	in, err := c.StdinPipe()
	out, bad := c.StdoutPipe()
	if err = errors.Join(err, bad, c.Start()); err == nil {
		go func() {
			every(ctx, linkAsk, func() { fmt.Fprintln(in, "tracking") })
			c.Wait()
		}()
	}
	return out, err
}

// version returns the version of a program.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return "not installed"
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}
