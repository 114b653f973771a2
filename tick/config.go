package tick

import (
	"fmt"
	"time"
)

// Defaults of Config.
const (
	defaultMaxTicks = 8           // netfox: a frame of 1/8 s at 60 Hz still catches up
	defaultStall    = time.Second // netfox
	defaultPast     = 256         // ticks; lightyear, after a tick of the far future exhausted its memory
	defaultFuture   = 64
)

// CatchUp is what to do with ticks that are due beyond Config.MaxTicks.
type CatchUp uint8

const (
	// Keep leaves them to the next frames, as netfox does; what is more than
	// StallThreshold behind is skipped.
	Keep CatchUp = iota
	// Drop skips the oldest, so that MaxTicks remain.
	Drop
	// Jump skips all but the latest.
	Jump
	// RunAll runs them all. MaxTicks has no meaning.
	RunAll
)

// Config is the configuration of a loop. The zero value has all defaults.
type Config struct {
	Rate      Rate   // zero is 60 ticks a second (TickRate); otherwise it must be Valid
	Epoch     uint32 // server: number of the epoch of the first Start; each later Start adds one
	FirstTick Tick   // server: tick of Start; a new host goes on where the old one was

	// The client plays ServerBuffer ahead of the earliest arrival at the server and
	// shows the server ClientBuffer behind the latest, to make up for jitter
	// (ServerBufferTime, ClientBufferTime). Zero is 2 ticks and 1 tick, negative is
	// none. A server applies none.
	ClientBuffer, ServerBuffer time.Duration

	Provider Provider // nil is ServerProvider or a ClientProvider with its defaults

	MaxTicks int     // ticks in an Advance at most; 0 is 8 (Max Ticks Per Frame)
	CatchUp  CatchUp // what to do with the others

	// StallThreshold is the time between two calls of Advance from which on it is a
	// stall: the ticks of that time are skipped, except the last. Zero is 1 s
	// (Stall Threshold), negative is never.
	StallThreshold time.Duration

	// SyncBound is how well a client must know the remote clock, if that has an
	// ErrorBound, to start; it is lost when the bound is twice as large. Zero is any.
	SyncBound time.Duration

	Past, Future Tick   // how far a message's tick may be off, see Accept; 0 is 256 and 64
	OnMismatch   Action // what to do about another tick rate; Warn by default

	Clock func() uint64                    // for Run: a monotonic clock, microseconds; nil is timesync.NowUsec
	Logf  func(format string, args ...any) // for Warn; nil is log.Printf

	// Handlers, each may be nil. They are called by the goroutine that advances the
	// loop and may call its methods, except Advance, Step and Run.
	BeforeLoop func()     // before_tick_loop: ticks will follow; the place to read the network
	BeforeTick func(Step) // before_tick
	Tick       func(Step) // on_tick, OnNetworkTick
	AfterTick  func(Step) // after_tick
	AfterLoop  func()     // after_tick_loop
	Event      func(Event)
}

// Step is what a tick gets: its number, its length, and the clocks pinned to the
// instant at which it starts, even if several ticks run at once. Predicted is
// exactly the start of the tick.
type Step struct {
	Tick  Tick
	Delta time.Duration
	Clocks
}

// Kind is the kind of an Event.
type Kind uint8

const (
	Synced       Kind = iota + 1 // the remote clock is known; on a server at Start
	ClientSynced                 // server: a client is synchronized, once per Peer (after_client_sync)
	Stepped                      // hard correction of the clocks, the predicted one by By; First to Last are never run or, if Again, run again
	Stalled                      // By passed between two calls of Advance; First to Last are never run
	Skipped                      // catching up: First to Last are never run
	Lost                         // the remote clock is not known any more; the clocks run on
	RateMismatch                 // the server's, or Peer's, Rate differs
	EpochChanged                 // client: the server's game time is another, Epoch; Synced follows
)

// Event is something that happened. First > Last means no ticks.
type Event struct {
	Kind        Kind
	AtUsec      uint64 // reading of the local clock at the last Advance
	By          time.Duration
	First, Last Tick
	Again       bool
	Peer        uint64
	Rate        Rate
	Epoch       uint32
}

// String returns the event in words.
func (e Event) String() string {
	switch e.Kind {
	case Synced:
		return "synced"
	case ClientSynced:
		return fmt.Sprintf("peer %d synced", e.Peer)
	case Stepped:
		what := "skipped"
		if e.Again {
			what = "run again"
		}
		return fmt.Sprintf("stepped by %v, ticks %d to %d %s", e.By, e.First, e.Last, what)
	case Stalled:
		return fmt.Sprintf("stalled for %v, ticks %d to %d skipped", e.By, e.First, e.Last)
	case Skipped:
		return fmt.Sprintf("ticks %d to %d skipped", e.First, e.Last)
	case Lost:
		return "lost"
	case RateMismatch:
		return fmt.Sprintf("tick rate %v of peer %d differs", e.Rate, e.Peer)
	case EpochChanged:
		return fmt.Sprintf("epoch %d", e.Epoch)
	}
	return fmt.Sprintf("event %d", e.Kind)
}

// Stats counts what happened since Start.
type Stats struct {
	Ticks, Skipped        uint64 // ticks run and ticks never run
	Steps, Stalls, Losses uint64 // events of these kinds
	Refused, OldEpoch     uint64 // what Accept, OnWelcome and OnHello refused: ticks out of the window, messages of other epochs
	Backwards             uint64 // calls with a time before the last one, taken as the last one
	Debt                  Tick   // ticks that are due and will be run by the next Advances
}
