// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a recording can be read however the program ends.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"timesync/examples/internal/exampletest"
)

// TestRecord ends the program by a signal, with a word and without.
func TestRecord(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("there are no signals to send on Windows")
		return
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		name := filepath.Join(t.TempDir(), "udp.tsr")
		command := exec.Command(os.Args[0], "-for", "1m", "-record", name)
		command.Env = append(os.Environ(), "UDP_TEST_MAIN=1")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "some blocks are written", func() bool {
			a, _ := os.Stat(name)
			b, _ := os.Stat(name + peerSuffix)
			return a != nil && b != nil && min(a.Size(), b.Size()) > 1000
		})
		killed := time.Now()
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		for _, name := range []string{name, name + peerSuffix} {
			datagrams, last := exampletest.Recording(t, name)
			t.Logf("%v: %d datagrams; the last block is from %v before", signal, datagrams, killed.Sub(last))
			if datagrams < 10 { // a block of a busy machine may have one only
				t.Errorf("%v: %d datagrams", signal, datagrams)
			}
		}
	}
}

// TestRecordNowhere: a file that cannot be made is said before anything starts.
func TestRecordNowhere(t *testing.T) {
	t.Parallel()
	if code, _, stderr := runMain(t, nil, "-record", filepath.Join(t.TempDir(), "none", "udp.tsr"), "-for", "200ms"); code != 1 {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
}
