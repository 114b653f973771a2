// SPDX-License-Identifier: BSD-3-Clause

// Package rtptime carries times of capture as RTP does: in the header extension
// abs-capture-time, and in the sender reports of RTCP. Others read them: pion, browsers, media
// servers. It reads no clock and needs package timesync and the standard library only.
//
// RTP's times are NTP's: seconds since 1900 in 64 bits, of which 32 are a fraction. They repeat
// after 136 years, for the first time on 7 February 2036. So a reader must know roughly when a time
// was: NTP.Usec and NTP.Time take a time near it.
//
// The NTP clock of an end need not be right. Pass readings of package clock, which are taken for
// microseconds since 1970: they begin at 50 years when the process starts, a time in 2020, and
// do not repeat before it has run for 16 years. The other end knows that clock by its Link. Or
// pass the wall clock, time.Now, where the other end knows only that. All of one stream must be
// by one clock. Two clocks may be 68 years apart.
package rtptime

import "time"

// NTP is a time in units of 2^-32 s since 1900, modulo 2^32 s (136 years).
type NTP uint64

// unixSeconds is how many seconds after 1900 the year 1970 began (RFC 5905, figure 4).
const unixSeconds = 2_208_988_800

const (
	fraction = 1 << 32
	million  = 1_000_000
	billion  = 1_000_000_000
)

// FromUsec returns the NTP time of microseconds since 1970, such as a reading of package clock.
func FromUsec(usec uint64) NTP {
	part := (usec%million*fraction + million/2) / million
	return NTP((usec/million+unixSeconds)<<32 + part)
}

// FromTime returns the NTP time of t.
func FromTime(t time.Time) NTP {
	part := (uint64(t.Nanosecond())*fraction + billion/2) / billion
	return NTP(uint64(t.Unix()+unixSeconds)<<32 + part)
}

// Usec returns n as microseconds since 1970: of the times that n can be, the one nearest to
// nearUsec, within 68 years.
func (n NTP) Usec(nearUsec uint64) uint64 {
	return nearUsec + uint64(Span(n-FromUsec(nearUsec)).usec())
}

// Time returns n as the time nearest to near, within 68 years.
func (n NTP) Time(near time.Time) time.Time {
	return near.Round(0).Add(Span(n - FromTime(near)).Duration())
}

// Add returns n + s.
func (n NTP) Add(s Span) NTP { return n + NTP(s) }

// Sub returns n - other, positive if n is later, within 68 years.
func (n NTP) Sub(other NTP) Span { return Span(n - other) }

// Span is a time from one NTP time to another, in units of 2^-32 s, positive if the other is
// later.
type Span int64

// SpanOf returns a duration in NTP's units.
func SpanOf(d time.Duration) Span {
	seconds := int64(d / time.Second)
	rest := int64(d % time.Second)
	return Span(seconds*fraction + rounded(rest*fraction, billion))
}

// Duration returns s in nanoseconds.
func (s Span) Duration() time.Duration {
	seconds := time.Duration(s>>32) * time.Second
	return seconds + time.Duration((uint64(s)%fraction*billion+fraction/2)/fraction)
}

// usec returns s in microseconds.
func (s Span) usec() int64 {
	return int64(s>>32)*million + int64((uint64(s)%fraction*million+fraction/2)/fraction)
}

// rounded returns a/b, rounded to the nearest.
func rounded(a, b int64) int64 {
	if a < 0 {
		return (a - b/2) / b
	}
	return (a + b/2) / b
}
