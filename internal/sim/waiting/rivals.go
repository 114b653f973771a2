package waiting

import "math"

// Estimator says how long to wait for what arrives, from its sending on.
type Estimator interface {
	Arrived(sent, arrived float64)
	Wait() float64 // before the first arrival it means nothing
}

// Rival is a rule that others have published. Each has a factor by which its wait grows, and which
// no program can know: the judge finds the least one by which a world has no more late ones than
// asked.
type Rival struct {
	Name string
	New  func(factor, rate float64) Estimator
}

// Rivals are the rules of others, in our words.
var Rivals = []Rival{
	{"NetEq", func(factor, _ float64) Estimator { return &netEq{factor: factor} }},
	{"RFC 3550", func(factor, _ float64) Estimator { return &deviation{factor: factor} }},
	{"spikes", func(factor, _ float64) Estimator { return &spikes{factor: factor} }},
	{"Mirror", func(factor, rate float64) Estimator { return &mirror{factor: factor, rate: rate} }},
	{"lightyear", func(factor, _ float64) Estimator { return &lightyear{factor: factor} }},
	{"netfox", func(factor, _ float64) Estimator { return &netfox{factor: factor} }},
}

// netEq is WebRTC's: a histogram in steps of 20 ms of by how much delays are longer than the
// shortest of the last 2 s. Each half second the longest counts, the rest fades, and 95 % are to
// be in time.
type netEq struct {
	factor    float64
	recent    []Item
	histogram [200]float64
	counted   int
	since     float64
	longest   float64
	wait      float64
}

func (e *netEq) Arrived(sent, arrived float64) {
	const step, quantile, forget, every, memory = 20, 0.95, 0.983, 500, 2000
	for len(e.recent) > 0 && e.recent[0].Arrived < arrived-memory {
		e.recent = e.recent[1:]
	}
	e.recent = append(e.recent, Item{Sent: sent, Arrived: arrived})
	shortest := arrived - sent
	for _, item := range e.recent {
		shortest = min(shortest, item.delay())
	}
	if e.since == 0 && e.counted == 0 {
		e.since = arrived
	}
	e.longest = max(e.longest, arrived-sent-shortest)
	if arrived-e.since >= every {
		if bin := int(e.longest / step); bin < len(e.histogram) {
			e.counted++
			keep := max(0, min(forget, 1-2/float64(e.counted+1)))
			for i := range e.histogram {
				e.histogram[i] *= keep
			}
			e.histogram[bin] += 1 - keep
		}
		e.longest, e.since = 0, arrived
	}
	bin := 3
	if e.counted > 0 {
		sum := 0.0
		for bin = 0; bin < len(e.histogram)-1; bin++ {
			if sum += e.histogram[bin]; sum >= quantile {
				break
			}
		}
	}
	e.wait = shortest + e.factor*step*float64(bin+1)
}

func (e *netEq) Wait() float64 { return e.wait }

// deviation is RFC 3550's: the mean and four times the mean deviation, both of about 16 arrivals.
type deviation struct {
	factor, mean, deviation, seen float64
}

func (e *deviation) Arrived(sent, arrived float64) {
	delay := arrived - sent
	if e.seen++; e.seen == 1 {
		e.mean = delay
		return
	}
	gain := max(1./16, 1/e.seen)
	e.mean += (delay - e.mean) * gain
	e.deviation += (math.Abs(delay-e.mean) - e.deviation) * gain
}

func (e *deviation) Wait() float64 { return e.mean + e.factor*4*e.deviation }

// spikes is algorithm 4 of Ramjee, Kurose, Towsley and Schulzrinne (1994): like deviation, but in a
// spike the mean follows each delay.
type spikes struct {
	factor, mean, deviation, slope float64
	last, before                   float64
	inSpike, started               bool
}

func (e *spikes) Arrived(sent, arrived float64) {
	delay := arrived - sent
	if !e.started {
		e.started, e.mean, e.last, e.before = true, delay, delay, delay
		return
	}
	if !e.inSpike {
		if math.Abs(delay-e.last) > 2*e.deviation+100 {
			e.slope, e.inSpike = 0, true
		}
	} else if e.slope = e.slope/2 + math.Abs(2*delay-e.last-e.before)/8; e.slope <= 8 {
		e.inSpike = false
		e.before, e.last = e.last, delay
		return
	}
	if e.inSpike {
		e.mean += delay - e.last
	} else {
		e.mean += 0.125 * (delay - e.mean)
	}
	e.deviation += 0.125 * (math.Abs(delay-e.mean) - e.deviation)
	e.before, e.last = e.last, delay
}

func (e *spikes) Wait() float64 { return e.mean + e.factor*4*e.deviation }

// mirror is Mirror's: the mean delay of a second, and as a buffer an interval and the deviation of
// the gaps between arrivals of two seconds. It shows what is an interval older.
type mirror struct {
	factor, rate         float64
	mean, gap, variance  float64
	last, seen, interval float64
}

func (e *mirror) Arrived(sent, arrived float64) {
	if e.seen++; e.seen == 1 {
		e.interval = 1000 / e.rate
		e.mean, e.last, e.gap = arrived-sent, arrived, e.interval
		return
	}
	delays := min(max(2/(e.rate+1), 2/(e.seen+1)), 1)
	// less than one in two seconds: the last gap alone
	gaps := min(max(2/(2*e.rate+1), 2/(e.seen+1)), 1)
	e.mean += delays * (arrived - sent - e.mean)
	off := arrived - e.last - e.gap
	e.gap += gaps * off
	e.variance = (1 - gaps) * (e.variance + gaps*off*off)
	e.last = arrived
}

func (e *mirror) Wait() float64 {
	return e.mean + e.factor*(2*e.interval+math.Sqrt(e.variance))
}

// lightyear is lightyear's: each tenth of a second a sample, the mean and four standard deviations
// of about ten of them, and 5 ms.
type lightyear struct {
	factor, mean, variance, last, seen float64
}

func (e *lightyear) Arrived(sent, arrived float64) {
	if e.seen > 0 && arrived-e.last < 100 {
		return
	}
	e.last = arrived
	e.seen++
	gain := max(0.1, 1/e.seen)
	off := arrived - sent - e.mean
	e.mean += gain * off
	if e.seen > 1 {
		e.variance = (1 - gain) * (e.variance + gain*off*off)
	}
}

func (e *lightyear) Wait() float64 { return e.mean + e.factor*(4*math.Sqrt(e.variance)+5) }

// netfox is netfox's: each quarter of a second a sample, the mean of eight without outliers, and a
// fixed buffer of two ticks at 60 Hz.
type netfox struct {
	factor, last float64
	samples      []float64
}

func (e *netfox) Arrived(sent, arrived float64) {
	if len(e.samples) > 0 && arrived-e.last < 250 {
		return
	}
	e.last = arrived
	e.samples = append(e.samples, arrived-sent)
	if len(e.samples) > 8 {
		e.samples = e.samples[1:]
	}
}

func (e *netfox) Wait() float64 {
	mean, variance := 0.0, 0.0
	for _, sample := range e.samples {
		mean += sample / float64(len(e.samples))
	}
	for _, sample := range e.samples {
		variance += (sample - mean) * (sample - mean) / float64(len(e.samples))
	}
	sum, usual := 0.0, 0.0
	for _, sample := range e.samples {
		if math.Abs(sample-mean) <= math.Sqrt(variance)+1e-9 {
			sum += sample
			usual++
		}
	}
	if usual > 0 {
		mean = sum / usual
	}
	return mean + e.factor*33
}
