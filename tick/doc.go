// Package tick is game time: ticks over any synchronized clock.
package tick
