// SPDX-License-Identifier: BSD-3-Clause

// This test proves that the page keeps time in Firefox, whose clock advances by 1 ms at a time where
// a page is not isolated. In a Firefox without a window the script of the page goes on, and at last
// to the address of the test with what it has seen.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"timesync/internal/testkit"
)

// toldScript waits until an expression is true, for so long at most, ms; lets the page settle, and run
// on for as long, and goes to an address.
const toldScript = `
for (const end = performance.now() + %[2]d; !(%[1]s) && performance.now() < end; ) await sleep(50);
await sleep(%[3]d);
const from = performance.now();
await sleep(%[3]d);
location = '%[4]s/?told=' + encodeURIComponent(JSON.stringify({
	isolated: crossOriginIsolated, step: client.step, samples: demo.samples.filter(s => s.at >= from),
}));
`

// told is what the script says.
type told struct {
	Isolated bool
	Step     float64 // by how much readings of the clock may lag behind, ms
	Samples  []sample
}

// inFirefox returns what the page says in a Firefox that ends with the test.
func inFirefox(t *testing.T, path string, isolated bool) (what told) {
	heard := make(chan string, 1)
	ear := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("told"); text != "" { // and no icon
			heard <- text
		}
	}))
	defer ear.Close()
	script, err := os.ReadFile("static/page.js")
	testkit.Must(t, err)
	script = fmt.Appendf(script, toldScript, stampsKnown, patience.Milliseconds(), measureFor.Milliseconds(), ear.URL)
	profile := t.TempDir()
	p := maps.Clone(built)
	p["page.js"] = filepath.Join(profile, "page.js")
	testkit.Must(t, os.WriteFile(p["page.js"], script, 0o600))
	s, err := serve("127.0.0.1:0", p, "")
	testkit.Must(t, err)
	s.isolated = isolated
	defer s.close()

	const quiet = `user_pref("datareporting.policy.dataSubmissionEnabled", false); user_pref("browser.aboutwelcome.enabled", false);`
	testkit.Must(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(quiet), 0o600))
	command := exec.CommandContext(t.Context(), path, "--headless", "--no-remote", "--profile", profile, s.address()+"?"+perfect)
	command.Env = append(os.Environ(), "HOME="+profile)
	testkit.Must(t, command.Start())
	defer command.Wait() // killed
	defer command.Process.Kill()
	select {
	case text := <-heard:
		testkit.Must(t, json.Unmarshal([]byte(text), &what))
	case <-time.After(testTime):
		t.Fatal("the page says nothing")
	}
	return what
}

func TestFirefox(t *testing.T) {
	t.Parallel()
	path := installed(t, "Firefox (apt-get install firefox-esr, or set FIREFOX)", os.Getenv("FIREFOX"), "firefox-esr", "firefox")
	for _, isolated := range []bool{true, false} {
		t.Run(map[bool]string{true: "isolated", false: "not isolated"}[isolated], func(t *testing.T) {
			told := inFirefox(t, path, isolated)
			t.Logf("readings lag behind by up to %v ms", told.Step)
			if told.Isolated != isolated || isolated && told.Step > 0.2 || !isolated && (told.Step < 0.9 || told.Step > 2.1) {
				t.Errorf("isolated %v, readings lag behind by up to %v ms", told.Isolated, told.Step)
			}
			// The time of day at which a page began is rounded to 1 ms.
			usable(t, told.Samples, stamps, 1300, besideOthers)
		})
	}
}
