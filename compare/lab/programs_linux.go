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

// rivalRun is a program in an experiment.
type rivalRun struct {
	name string
	why  string      // it was not measured, or ""
	errs []linkError // at end A, where the clients run
}

// setup is that of its errors.
func (r *rivalRun) setup() linkSetup { return linkSetup{Method: r.name, kernel: true} }

// rival is how to run a program and read its estimates.
type rival struct {
	name, program string
	// server and client are configuration files; SOCK is a folder for sockets. Without a
	// server, the client asks one that another rival has started.
	server, client string
	// arguments come before the configuration file.
	arguments []string
	// watch reads estimates until the client ends, whose output is out, or ctx is over.
	watch func(ctx context.Context, folder string, out io.Reader, found func(usec float64)) error
}

// chronyServer serves the machine's clock.
const chronyServer = "local stratum 1\nallow\n" + chronySockets

// chronySockets is what every chronyd here needs: its files are in its own folder.
const chronySockets = "cmdport 0\nbindcmdaddress SOCK/sock\npidfile SOCK/pid\n"

// rivalPrograms are tried in every experiment. All take the kernel's times.
var rivalPrograms = []rival{
	chrony(play.Chronyd, chronyServer, 0), chrony(play.ChronydOften, "", -4),
	{name: "ptp4l 16/s", program: "ptp4l", arguments: []string{"-m", "-f"}, watch: offsets,
		server: ptpCommon + "unicast_listen 1\ninhibit_multicast_service 1\nmasterOnly 1\n[eth0]\n",
		client: ptpCommon + "slaveOnly 1\nsummary_interval -6\n[unicast_master_table]\ntable_id 1\nlogQueryInterval 0\nUDPv4 " + linkHosts[1].String() + "\n[eth0]\nunicast_master_table 1\n"},
}

// ptpCommon lets ptp4l exchange 16 times a second each way through a router. With
// free_running it leaves the clock alone and prints the offset of each exchange.
const ptpCommon = "[global]\ntime_stamping software\nnetwork_transport UDPv4\nudp_ttl 8\nfree_running 1\n" +
	"logSyncInterval -4\nlogMinDelayReqInterval -4\nlogAnnounceInterval -2\nuds_address SOCK/uds\n"

// chrony is chronyd with a poll every 2^poll seconds.
func chrony(name, server string, poll int) rival {
	return rival{name: name, program: "chronyd", arguments: []string{"-x", "-d", "-u", "root", "-F", "0", "-f"},
		server: server,
		client: fmt.Sprintf("server %s minpoll %d maxpoll %d xleave\nport 0\n", linkHosts[1], poll, poll) + chronySockets,
		watch:  tracking}
}

// runRivals runs all programs until ctx is over.
func (l *link) runRivals(ctx context.Context) {
	l.rivals = make([]rivalRun, len(rivalPrograms))
	folder, err := os.MkdirTemp("", "reallink")
	if err == nil {
		defer os.RemoveAll(folder)
	}
	var all sync.WaitGroup
	for i, p := range rivalPrograms {
		r := &l.rivals[i]
		r.name = p.name
		if _, missing := exec.LookPath(p.program); missing != nil || err != nil {
			r.why = "not installed"
			continue
		}
		all.Go(func() {
			found := func(usec float64) {
				r.errs = append(r.errs, linkError{time.Since(l.begun), sim.A, r.setup(), usec})
			}
			if err := p.run(ctx, l.spaces, filepath.Join(folder, strconv.Itoa(i)), found); err != nil && ctx.Err() == nil {
				r.why = err.Error()
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
	return p.watch(ctx, home, out, found)
}

// offsets reads what ptp4l prints.
func offsets(_ context.Context, _ string, out io.Reader, found func(float64)) error {
	offset := regexp.MustCompile(`master offset +(-?\d+) `)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := offset.FindStringSubmatch(lines.Text()); m != nil {
			ns, _ := strconv.ParseFloat(m[1], 64)
			found(ns / 1e3)
		}
	}
	return errors.New("it ended")
}

// start starts the program in a namespace, with its files in a folder of its own.
func (p rival) start(ctx context.Context, space, home, conf string) (*exec.Cmd, io.Reader, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(home, "conf")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(conf, "SOCK", home)), 0o600); err != nil {
		return nil, nil, err
	}
	c := exec.CommandContext(ctx, p.program, slices.Concat(p.arguments, []string{path})...)
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return c, out, within(space, c.Start)
}

// tracking asks chronyd ten times a second for its estimate, through chronyc.
func tracking(ctx context.Context, folder string, out io.Reader, found func(float64)) error {
	go io.Copy(io.Discard, out)
	socket := filepath.Join(folder, "sock")
	for ; ; time.Sleep(linkAsk) { // chronyd makes it when it is ready
		if _, err := os.Stat(socket); err == nil || ctx.Err() != nil {
			break
		}
	}
	c := exec.CommandContext(ctx, "chronyc", "-c", "-n", "-h", socket)
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer c.Wait()
	defer c.Process.Kill()
	answers := bufio.NewScanner(pipe)
	for tick := time.NewTicker(linkAsk); ctx.Err() == nil; <-tick.C {
		fmt.Fprintln(in, "tracking")
		if !answers.Scan() {
			return errors.New("chronyc ended")
		}
		// Reference, address, stratum, time, correction in seconds. Stratum 0 is no estimate.
		field := strings.Split(answers.Text(), ",")
		if len(field) < 5 || field[2] == "0" {
			continue
		}
		if seconds, err := strconv.ParseFloat(field[4], 64); err == nil {
			found(seconds * 1e6)
		}
	}
	return nil
}

// version returns the version of a program.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return "not installed"
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}
