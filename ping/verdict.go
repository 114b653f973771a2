// SPDX-License-Identifier: BSD-3-Clause

package ping

// Verdict is what became of a reply.
type Verdict uint8

const (
	Accepted       Verdict = iota // used; the clock goes on
	Synced                        // used; the clock was set for the first time since Reset
	Stepped                       // used; a clock was set, the time jumped: Snapshot.Steps counts it
	ManyServers                   // used; the time jumped as often as if several machines answered
	Malformed                     // refused: not a reply
	OldSession                    // refused: of another session than Reset named
	UnknownRequest                // refused: forged, or the request is forgotten
	Duplicate                     // refused: this request has been answered
	Overtaken                     // refused: a later request was answered before
	TooLate                       // refused: more than 10 s after the request
	Impossible                    // refused: before its request, or held for longer than it was away
	verdicts
)

var verdictNames = [verdicts]string{
	"accepted",
	"synced",
	"stepped",
	"many servers",
	"malformed",
	"old session",
	"unknown request",
	"duplicate",
	"overtaken",
	"too late",
	"impossible",
}

// String returns the verdict in words.
func (v Verdict) String() string {
	if v < verdicts {
		return verdictNames[v]
	}
	return "invalid"
}
