// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
)

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
