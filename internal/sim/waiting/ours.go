package waiting

import (
	"time"

	"timesync/jitter"
)

// Ours is the estimator of package jitter.
type Ours struct{ jitter.Estimator }

// NewOurs returns one that lets a share come late.
func NewOurs(share float64) *Ours { return &Ours{jitter.Estimator{Share: share}} }

// Arrived implements Estimator.
func (o *Ours) Arrived(sent, arrived float64) { o.Add(duration(sent), duration(arrived)) }

// Wait implements Estimator.
func (o *Ours) Wait() float64 {
	wait, _ := o.Estimator.Wait()
	return milliseconds(wait)
}

// Interval is how long it is from one sending to the next.
func (o *Ours) Interval() float64 { return milliseconds(o.Estimator.Interval()) }

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
