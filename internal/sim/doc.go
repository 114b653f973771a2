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
// The package does not import timesync, so that the tests of timesync can use it:
// what travels is plain integers.
package sim
