package waiting

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Recorded is the kind of worlds that were recorded.
const Recorded = "recordings"

// Recordings returns each direction of the recordings in a folder, whose names are *.csv.gz: with
// the columns sent and delay, in microseconds and -1 for what was lost, and direction. Of files
// whose name says that a direction was made up only the other one counts.
func Recordings(folder string) (worlds []*World, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.Contains(name, "symsplit") || strings.Contains(name, "compressed") {
			continue
		}
		ways, err := readRecording(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, way := range []string{"up", "down"} {
			madeUp := strings.Contains(name, "upexcess") || strings.Contains(name, "down-modelled")
			w := ways[way]
			if w == nil || len(w.Items) < 200 || madeUp && way == "down" {
				continue
			}
			w.Name = strings.TrimSuffix(filepath.Base(name), ".csv.gz") + " " + way
			w.Kind, w.tailed = Recorded, true
			length := w.Items[len(w.Items)-1].Sent - w.Items[0].Sent
			w.Rate = float64(len(w.Items)) / length * 1000
			w.sort()
			w.findStops()
			worlds = append(worlds, w)
		}
	}
	return worlds, nil
}

// readRecording returns the items of each direction.
func readRecording(name string) (map[string]*World, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(plain).ReadAll()
	if err != nil {
		return nil, err
	}
	ways := map[string]*World{}
	for _, row := range rows[1:] {
		sent, errSent := strconv.ParseFloat(row[0], 64)
		delay, errDelay := strconv.ParseFloat(row[1], 64)
		if errSent != nil || errDelay != nil {
			return nil, fmt.Errorf("no numbers in %q", row)
		}
		if delay < 0 {
			continue
		}
		if ways[row[2]] == nil {
			ways[row[2]] = &World{}
		}
		item := Item{Sent: sent / 1000, Arrived: (sent + delay) / 1000}
		ways[row[2]].Items = append(ways[row[2]].Items, item)
	}
	return ways, nil
}
