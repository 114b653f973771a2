package simnet

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"time"
)

// Sample is one datagram of a recorded series.
type Sample struct {
	At    time.Duration // sent at this true time
	Delay time.Duration // Lost if it did not arrive
}

// micros returns us microseconds.
func micros(us float64) time.Duration {
	return time.Duration(math.Round(us * float64(time.Microsecond)))
}

// ReadTrace reads recorded series: a gzip CSV file with the columns send_time_us, owd_us (-1 is
// lost) and direction. Times may have decimals. It returns the rows of each direction, in the order
// of the file.
func ReadTrace(path string) (series map[string][]Sample, err error) {
	series = map[string][]Sample{}
	err = eachRow(path, func(row string) error {
		var at, owd float64
		var to string
		if _, err := fmt.Sscan(row, &at, &owd, &to); err != nil {
			return err
		}
		delay := max(micros(owd), Lost)
		series[to] = append(series[to], Sample{At: micros(at), Delay: delay})
		return nil
	})
	return series, err
}

// eachRow hands over the rows of a gzip CSV file, with spaces instead of commas, but for the first
// one, which has the names of the columns.
func eachRow(path string, take func(row string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	lines := bufio.NewScanner(z)
	lines.Scan()
	for lines.Scan() {
		if err := take(strings.ReplaceAll(lines.Text(), ",", " ")); err != nil {
			return fmt.Errorf("%s: row %q: %w", path, lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Recorded delays a datagram like the latest of the series that was sent no later.
func Recorded(series []Sample) Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration {
		i := sort.Search(len(series), func(i int) bool { return series[i].At > t })
		if len(series) == 0 {
			return Lost
		}
		return series[max(i-1, 0)].Delay
	}
}
