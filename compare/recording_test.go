// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that what happened to a clock is found in its recording, and said.

package main

import (
	"bytes"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"timesync"
	"timesync/record"
)

// second is one in microseconds.
const second = 1_000_000

// story records both ends of a path of which is known what happens: the way to a is 20 ms
// longer from 60 s on, b's clock is set by 250 ms at 120 s, b's reports are lost from 150 to
// 170 s, and everything to a from 190 to 195 s.
func story(t *testing.T) (files [2]bytes.Buffer) {
	t.Helper()
	const seed = 34
	rng := rand.New(rand.NewPCG(seed, 1))
	ends := [2]*record.Recorder{record.New(&files[0]), record.New(&files[1])}
	clock := [2]uint64{5 * second, 1 << 45}
	for now := uint64(second); now < 220*second; now += 16_667 {
		if now >= 120*second && now < 120*second+16_667 {
			clock[1] += 250_000
		}
		for i, e := range ends {
			if now/16_667%100 == 0 {
				e.Flush()
			}
			if i == 0 && now > 190*second && now < 195*second {
				continue
			}
			delay := 30_000 + uint64(2000*rng.ExpFloat64())
			if i == 0 && now > 60*second {
				delay += 20_000
			}
			sent, received := now+clock[1-i], now+delay+clock[i]
			e.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(sent), received)
			if now < 2*second {
				e.Anchor(received, sent)
			}
			lost := i == 0 && now > 150*second && now < 170*second
			if report, ok := ends[1-i].MinDeltaTS24(sent); ok && now/16_667%120 == 0 && !lost {
				e.OnPeerMinDeltaTS24(report, received)
			}
		}
	}
	for _, e := range ends {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestStory draws the recordings, and looks for what happened in the words. The figures have
// room, since estimators change.
func TestStory(t *testing.T) {
	files, dir := story(t), t.TempDir()
	a, b := filepath.Join(dir, "a.tsr"), filepath.Join(dir, "b.tsr")
	whole := files[0].Bytes()
	for name, content := range map[string][]byte{a: whole, b: files[1].Bytes()} {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var words strings.Builder
	if err := drawRecording(a, b, dir, &words); err != nil {
		t.Fatal(err)
	}
	t.Log(words.String())
	for _, want := range []string{
		`\((59|60|61)\.\d s\) path to us longer by (19|20|21) ms; believed after (9|10|11)\.\d s`,
		`\((119|12\d)\.\d s\) the remote time stepped by \+2[45]\d ms`,
		`\((14[6789]|150)\.\d s\) no report for 2[12345]\.\d s; usual are 2\.0 s`,
		`\((18[789]|190)\.\d s\) nothing arrived for 5\.\d s`,
		`the two ends disagree by \S+ us \(median\)`,
		`all 2\d\d recorded answers are those of this version`,
	} {
		if !regexp.MustCompile(want).MatchString(words.String()) {
			t.Errorf("not said: %s", want)
		}
	}
	checkDrawn(t, filepath.Join(dir, "recording-a"))

	// A recording that is cut off is drawn as far as it goes.
	if err := os.WriteFile(a, whole[:len(whole)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	words.Reset()
	if err := drawRecording(a, "", dir, &words); err != nil || !strings.Contains(words.String(), "ends within a block") {
		t.Errorf("%v\n%s", err, words.String())
	}
	if err := os.WriteFile(a, []byte("something else"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := drawRecording(a, "", dir, &words); err != record.ErrFormat {
		t.Error(err)
	}
}

// checkDrawn looks at the picture and the CSV.
func checkDrawn(t *testing.T, name string) {
	t.Helper()
	if png, err := os.ReadFile(name + ".png"); err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) || len(png) < 20_000 {
		t.Errorf("the picture: %d bytes, %v", len(png), err)
	}
	file, err := os.Open(name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 1000 || len(rows[0]) != 14 {
		t.Errorf("the CSV: %d rows, %v", len(rows), err)
	}
}

// TestOtherAnswers: it is said by how much other answers were recorded.
func TestOtherAnswers(t *testing.T) {
	r := &reel{}
	m := record.Moment{Ends: [2]*timesync.TimeSynchronizer{new(timesync.TimeSynchronizer)}}
	m.Answer.OK, m.Answer.Snapshot.OffsetUsec = true, 1234
	r.compare(&m)
	var words strings.Builder
	r.tell(&words, "x")
	if !strings.Contains(words.String(), "answers otherwise") || !strings.Contains(words.String(), "1.2 ms") {
		t.Error(words.String())
	}
}
