// Package sim is the world in which the project measures accuracy: clocks with
// known errors, links with known delays and a virtual true time, all of it
// deterministic. The same seed gives the same datagrams to the byte.
//
// True time is a time.Duration since the start of the world. A clock turns it
// into readings, uint64 microseconds that may wrap modulo 2^64. A link turns the
// true time of sending into the true times of arrival. Run lets two ends exchange
// TimeSync's datagrams and asks any number of estimators, which all see identical
// packets, for the other end's clock; it knows the answer. World joins many nodes
// with clocks to a network for programs that bring their own protocol.
//
// What travels is plain integers. Of package timesync only Core knows, which is its synchronizer as
// an Estimator. What the synchronizer makes of these worlds is proven in internal/simtest; the tests
// here are those of the simulator.
package sim
